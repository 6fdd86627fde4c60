package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// flying inserts rows and publishes their hints, as if on time.
func (w *world) flying(t testing.TB, tasks ...task.Task) []task.Task {
	t.Helper()
	rows := w.insert(t, tasks...)
	w.put(t, rows...)
	for _, row := range rows {
		w.now = row.RunAt
		w.publish(t, row)
	}
	return rows
}

// known is a backlog that answers the same for all owners.
type known struct{ explains, clear bool }

func (k known) Explains(string, time.Time) bool { return k.explains }
func (k known) Clear(string) bool               { return k.clear }

func TestSpacingIsAFunctionOfTheAge(t *testing.T) {
	t.Parallel()
	const every = 2 * time.Second
	row := pending("ann", 0)
	for name, c := range map[string]struct {
		backlog      Backlog
		least, most  int
		longestUnder time.Duration // the longest wait while the row is younger than 100 s
	}{
		"unknown backlog": {nil, 10, 12, 70 * time.Second},
		"fresh lag":       {known{}, 10, 12, 70 * time.Second},
		"known lost":      {known{clear: true}, 100, 200, 6 * time.Second},
		"explained":       {known{explains: true}, 2, 4, 100 * time.Second},
	} {
		var puts []time.Duration
		last := time.Duration(0)
		for age := every; age < time.Hour; age += every {
			// Each look is by a daemon that has just taken over and knows only the row's age.
			u := overdueCheck{grace: 2 * time.Second, now: base.Add(age), last: base.Add(age - every)}
			must, lost := u.mustPut(row, c.backlog)
			if lost != (name == "known lost") {
				t.Fatalf("%s: lost: %v", name, lost)
			}
			if !must {
				continue
			}
			if age < 100*time.Second && age-last > c.longestUnder {
				t.Errorf("%s: waited from %v to %v", name, last, age)
			}
			puts, last = append(puts, age), age
		}
		if len(puts) < c.least || len(puts) > c.most {
			t.Errorf("%s: %d puts in an hour, want %d to %d: %v", name, len(puts), c.least, c.most, puts)
		}
	}
}

// The workers are stopped while event and daemon go on: each row that a pass puts is published once more.
func TestWorkersStoppedForThreeMinutesRepeatFewHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	var all []task.Task
	for i := range 400 {
		all = append(all, pending(fmt.Sprint("owner", i), sec(float64(i)/20)))
	}
	rows := w.flying(t, all...) // published in time, but nobody reads the hints
	hints := len(rows)
	o, l, c := new(overdue), new(lookahead), new(changed)
	a := w.auditRows()
	for w.now = base.Add(sec(20)); w.now.Before(base.Add(sec(200))); w.now = w.now.Add(sec(4)) {
		for _, pass := range []sweepRun{o.pass, l.pass, c.pass, a.pass} {
			w.run(t, pass)
		}
		seen, err := w.sets.Standings(t.Context(), rows)
		pipelinetest.Must(t, err)
		for i, s := range seen {
			if s.Due != protocol.NoScore {
				w.publish(t, rows[i])
				hints++
			}
		}
	}
	if hints > len(rows)*6/5 {
		t.Errorf("%d hints of %d tasks, want at most 1.2 each", hints, len(rows))
	}
	t.Logf("%d hints of %d tasks", hints, len(rows))
}

func (known) Partition(string) int { return 0 }
