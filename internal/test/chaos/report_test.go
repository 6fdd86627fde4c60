package chaos_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// result is what one row of the table is made of.
type result struct {
	*verdict

	n        int
	fault    string
	calls    int
	rate     float64 // calls a second
	outcomes []outcome
	notes    []string
	lags     []time.Duration // sorted, outside of the faults
	failed   bool
}

const tableHead = `| row | fault | calls | tasks | lost | duplicate | early | after-cancel | stale | phantom | torn | healed after (bound) | lag p50 / p99 |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

// line is the row of the table.
func (r result) line() string {
	cells := []string{fmt.Sprint(r.n), r.fault, fmt.Sprint(r.calls), fmt.Sprint(r.tasks)}
	for _, kind := range r.kinds() {
		cells = append(cells, fmt.Sprint(len(kind.cases)))
	}
	cells = append(cells, r.healing(), fmt.Sprintf("%d / %d ms", rank(r.lags, 50).Milliseconds(), rank(r.lags, 99).Milliseconds()))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// healing lists how long each fault took to heal, or the slowest where there are many.
func (r result) healing() string {
	told := func(o outcome) string {
		return fmt.Sprintf("%s %.1f s (%.3g)", o.name, o.healed.Seconds(), o.within.Seconds())
	}
	if n := len(r.outcomes); n > 4 {
		worst := slices.MaxFunc(r.outcomes, func(a, b outcome) int { return cmp.Compare(a.healed, b.healed) })
		return fmt.Sprintf("slowest of %d: %s", n, told(worst))
	}
	healed := make([]string, 0, len(r.outcomes))
	for _, o := range r.outcomes {
		healed = append(healed, told(o))
	}
	return strings.Join(healed, " · ")
}

// callsASecond is the median over the seconds of a row: a game that is cut off for a while can't be called so often.
func callsASecond(calls []call, from, to time.Time) float64 {
	n := make([]int, int(to.Sub(from).Seconds()))
	for _, c := range calls {
		if i := int(c.began.Sub(from).Seconds()); !c.began.Before(from) && i < len(n) {
			n[i]++
		}
	}
	if len(n) == 0 {
		return 0
	}
	slices.Sort(n)
	return float64(n[len(n)/2])
}

// table renders all rows, their totals and what was noted.
func table(results []result) string {
	var b strings.Builder
	b.WriteString(tableHead)
	sums := make([]int, 9)
	for _, r := range results {
		b.WriteString(r.line())
		sums[0] += r.calls
		sums[1] += r.tasks
		for i, kind := range r.kinds() {
			sums[2+i] += len(kind.cases)
		}
	}
	b.WriteString("| | **all** |")
	for _, n := range sums {
		fmt.Fprintf(&b, " **%d** |", n)
	}
	b.WriteString(" | |\n")
	for _, r := range results {
		for _, note := range r.notes {
			fmt.Fprintf(&b, "\nRow %d: %s.\n", r.n, strings.TrimSuffix(note, "."))
		}
	}
	return b.String()
}

// broken names the rows that failed.
func broken(results []result) []int {
	var rows []int
	for _, r := range results {
		if r.failed {
			rows = append(rows, r.n)
		}
	}
	slices.Sort(rows)
	return rows
}
