package chaos_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestSoak breaks one world at random for as long as DUETIME_CHAOS_SOAK says, and judges it at the end as a whole. It
// plays the rows that need no world of their own.
func TestSoak(t *testing.T) {
	text := os.Getenv("DUETIME_CHAOS_SOAK")
	if text == "" {
		return // make soak asks for it
	}
	length, err := time.ParseDuration(text)
	pipelinetest.Must(t, err)
	choices := slices.DeleteFunc(rows(), func(r entry) bool {
		return r.alone || r.setup.servers != nil || r.setup.ensemble || r.setup.secured || r.n == 0
	})
	f := form{rate: 400, slack: 5 * time.Second, full: true}
	d := newDrill(t, setup{linked: everyServer}, f)
	played, healed := map[int]int{}, map[int]time.Duration{}
	for began := time.Now(); time.Since(began) < length && !t.Failed(); {
		r := choices[rand.IntN(len(choices))]
		before := len(d.outcomes)
		r.run(t, d)
		played[r.n]++
		for _, o := range d.outcomes[before:] {
			healed[r.n] = max(healed[r.n], o.healed)
		}
		fmt.Printf("chaos: %v: row %d, %s\n", time.Since(began).Round(time.Second), r.n, r.fault)
	}
	took := time.Since(d.began)
	res := d.finish(t)
	report := circumstances(t, "make soak DURATION="+text, took) + soakTable(res, played, healed)
	fmt.Println(report)
	if !t.Failed() {
		writeReport(t, "soak", report)
	}
}

// soakTable tells the totals, and how often each row was played with its slowest healing.
func soakTable(r result, played map[int]int, healed map[int]time.Duration) string {
	var b strings.Builder
	b.WriteString("| calls | tasks | faults |")
	values := fmt.Sprintf("| %d | %d | %d |", r.calls, r.tasks, len(r.outcomes))
	for _, kind := range r.kinds() {
		fmt.Fprintf(&b, " %s |", kind.name)
		values += fmt.Sprintf(" %d |", len(kind.cases))
	}
	fmt.Fprintf(&b, " lag p50 / p99 |\n|%s\n%s %d / %d ms |\n\n", strings.Repeat("---|", 4+len(r.kinds())), values,
		rank(r.lags, 50).Milliseconds(), rank(r.lags, 99).Milliseconds())
	b.WriteString("Rows, how often, slowest healing:")
	for _, n := range slices.SortedFunc(maps.Keys(played), cmp.Compare) {
		fmt.Fprintf(&b, " %d ×%d %.1f s ·", n, played[n], healed[n].Seconds())
	}
	return strings.TrimSuffix(b.String(), " ·") + ".\n"
}
