package chaos_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// entry is a row of the table: a fault that is made on purpose, in a world of its own.
type entry struct {
	n     int
	fault string
	setup setup
	alone bool // leaves its world other than it was: no soak plays it
	run   func(t *testing.T, d *drill)
}

// form is how hard the rows are played.
type form struct {
	rate  int           // calls a second
	slack time.Duration // beyond the bounds
	late  time.Duration // past its time a task shows that a fault is felt; 0: late
	full  bool          // as make chaos plays it
}

// rows returns all rows of the table by number.
func rows() []entry {
	all := slices.Concat(leaderRows(), redisRows(), linkRows(), kafkaRows(), workerRows(), mysqlRows(), processRows(), poisonRows(), handlerRows(), crowdRows(), replicaRows(), securedRows(),
		refusedRows(), sessionRows(), shardRows(), foreignRows(), aloneRows(),
		[]entry{recurrencesRow(), bulkRow(), rateRow(), pushRow(), blockRow(), debounceRow(), memoryRow(), freshRow(), orderRow(), groupRow(), pauseRow(), ownerRateRow(), queuesRow(), endedRow()})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.n, b.n) })
	return all
}

// busy is for a machine on which other tests run too: a second is nothing there.
var busy = form{rate: 100, slack: 45 * time.Second, late: 2 * time.Second}

// short are the rows of a plain go test, played at a quarter of the speed: leader, index, worker and MySQL lost.
var short = []int{1, 7, 14, 16}

// chosen reads DUETIME_CHAOS_ROWS: "all", or numbers with commas; without it the short form.
func chosen(t *testing.T) ([]entry, form) {
	t.Helper()
	f := form{rate: 400, full: true}
	want := short
	switch text := os.Getenv("DUETIME_CHAOS_ROWS"); text {
	case "all":
		return rows(), f
	case "":
		f = busy
	default:
		want = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			pipelinetest.Must(t, err)
			want = append(want, n)
		}
	}
	all := rows()
	for _, n := range want {
		if !slices.ContainsFunc(all, func(r entry) bool { return r.n == n }) {
			t.Fatalf("there is no row %d", n)
		}
	}
	return slices.DeleteFunc(all, func(r entry) bool { return !slices.Contains(want, r.n) }), f
}

// TestChaos plays the rows one after the other, each in a world of its own, and prints the table. It measures time, so
// it is alone.
func TestChaos(t *testing.T) {
	chosen, f := chosen(t)
	began := time.Now()
	var results []result
	for _, r := range chosen {
		t.Run(fmt.Sprintf("%02d", r.n), func(t *testing.T) {
			began := time.Now() // of this row
			res := result{verdict: &verdict{}}
			defer func() {
				res.n, res.fault, res.failed = r.n, r.fault, t.Failed()
				results = append(results, res)
				fmt.Printf("chaos: row %d took %v, failed %v\nchaos: %s", r.n, time.Since(began).Round(time.Second), res.failed, res.line())
			}()
			f := f
			f.rate = cmp.Or(r.setup.rate, f.rate)
			d := newDrill(t, r.setup, f)
			r.run(t, d)
			res = d.finish(t)
			if f.full && r.setup.rate == 0 && res.rate < 300 {
				t.Errorf("%.0f calls a second, want at least 300", res.rate)
			}
		})
	}
	text := table(results)
	fmt.Println(text)
	if failed := broken(results); len(failed) > 0 {
		fmt.Println("chaos: rows that failed:", failed)
	}
	if f.full && len(chosen) == len(rows()) {
		writeReport(t, "table", circumstances(t, "make chaos", time.Since(began))+text)
	}
}
