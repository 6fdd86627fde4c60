package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// absentDue is the standing of a row whose hint is under way or lost.
func absentDue(one task.Task) task.Standing {
	return task.Standing{Due: task.NoScore, Owner: task.ScoreOf(one)}
}

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

// strangers returns two owners whose hints go to different partitions.
func (w *world) strangers(t testing.TB) (string, string) {
	t.Helper()
	b, err := w.hints.Backlog(t.Context(), "default")
	pipelinetest.Must(t, err)
	for i := range 100 {
		if owner := fmt.Sprint("owner", i); b.Partition(owner) != b.Partition("ann") {
			return "ann", owner
		}
	}
	t.Fatal("all owners share a partition")
	return "", ""
}

func TestOverdueRowAtALaterTimeIsMended(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.flying(t, pending("ann", sec(1)), pending("ann", time.Hour)) // the backlog would explain that they are absent
		w.put(t, w.moved(t, rows[1], time.Hour))
		spedUp, err := rows[1].Move(base.Add(sec(2)), base.Add(sec(2)))
		pipelinetest.Must(t, err)
		w.save(t, spedUp) // its writer died before the put
		w.now = base.Add(sec(5))
		w.run(t, (&overdue{r: w.Reconciler}).pass)
		w.wantStanding(t, "sped up", spedUp, both(spedUp))
		w.wantStanding(t, "explained", rows[0], absentDue(rows[0]))
	})
}

func TestLostHintIsPutAgainAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", sec(-60)))[0] // the row is neither in Redis nor in Kafka
		o := &overdue{r: w.Reconciler}
		for range 3 { // a step of a minute's age takes 2.6 s
			w.run(t, o.pass)
			w.now = w.now.Add(sec(2))
		}
		w.wantStanding(t, "after three passes", row, both(row))
	})
}

func TestBacklogOfTheOwnPartitionAloneExplains(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		ann, other := w.strangers(t)
		waiting := w.flying(t, pending(ann, sec(1)))[0]
		lost := w.insert(t, pending(other, sec(1)))[0]
		w.now = base.Add(sec(3.5))
		w.run(t, (&overdue{r: w.Reconciler}).pass)
		w.wantStanding(t, "in the backlog", waiting, absentDue(waiting))
		w.wantStanding(t, "lost beside a backlog", lost, both(lost))
	})
}

func TestSteadyFreshLagDoesNotStarveALostHint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		lost := w.insert(t, pending("ann", 0))[0]
		w.flying(t, pending("ann", sec(3))) // some fresh hint is always unread
		o := &overdue{r: w.Reconciler}
		for s := 4.0; s < 9; s += 2 {
			w.now = base.Add(sec(s))
			w.run(t, o.pass)
		}
		w.wantStanding(t, "lost among fresh hints", lost, both(lost))
	})
}

func TestOldRowIsPutAgainWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.flying(t, pending("ann", 0))[0] // nobody ever reads the hint
		o := &overdue{r: w.Reconciler}
		for w.now = base.Add(sec(2)); w.now.Before(base.Add(maxExplainedAge)); w.now = w.now.Add(sec(20)) {
			w.run(t, o.pass)
			w.wantStanding(t, "explained", row, absentDue(row))
		}
		for ; w.now.Before(base.Add(2 * maxExplainedAge)); w.now = w.now.Add(sec(20)) {
			w.run(t, o.pass)
		}
		w.wantStanding(t, "after ten minutes", row, both(row))
		if n := w.alarms.Load(); n != 0 {
			t.Errorf("%d alarms, each of which has everything audited, though the backlog explains the wait", n)
		}
	})
}

// The event process publishes during the pass. If the backlog were read before the sets, the hint would look lost.
func TestHintPublishedDuringTheLookIsNotRepeated(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", 0))[0]
		w.put(t, row)
		w.now = base.Add(sec(3))
		w.between(func() { w.publish(t, row) })
		w.run(t, (&overdue{r: w.Reconciler}).pass)
		w.wantStanding(t, "published", row, absentDue(row))
	})
}

func TestTasksSettledDuringTheLookAreNoAlarm(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		read := func() task.Task { // its hint
			row := w.insert(t, pending("ann", 0))[0]
			w.put(t, row)
			_, err := w.sets.Ack(t.Context(), row.Shard, 1, []task.Entry{w.entry(t, row)})
			pipelinetest.Must(t, err)
			return row
		}
		w.now = base.Add(sec(3))
		alarmed := func(want int64) {
			t.Helper()
			w.run(t, (&overdue{r: w.Reconciler}).pass)
			if n := w.alarms.Load(); n != want {
				t.Errorf("%d alarms, want %d", n, want)
			}
		}
		settled := read()
		w.between(func() { w.save(t, w.cancelled(t, settled)) })
		alarmed(0)
		lost := read()
		alarmed(1)
		w.wantStanding(t, "lost", lost, both(lost))
	})
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
	onEach(t, func(t *testing.T, w *world) {
		var all []task.Task
		for i := range 400 {
			all = append(all, pending(fmt.Sprint("owner", i), sec(float64(i)/20)))
		}
		rows := w.flying(t, all...) // published in time, but nobody reads the hints
		hints := len(rows)
		o, l, c := &overdue{r: w.Reconciler}, &lookahead{r: w.Reconciler}, &changed{r: w.Reconciler}
		a := w.auditRows()
		for w.now = base.Add(sec(20)); w.now.Before(base.Add(sec(200))); w.now = w.now.Add(sec(4)) {
			for _, pass := range []func(context.Context, clock) (loop.Result, error){o.pass, l.pass, c.pass, a.pass} {
				w.run(t, pass)
			}
			seen, err := w.sets.Standings(t.Context(), rows)
			pipelinetest.Must(t, err)
			for i, s := range seen {
				if s.Due != task.NoScore {
					w.publish(t, rows[i])
					hints++
				}
			}
		}
		if hints > len(rows)*6/5 {
			t.Errorf("%d hints of %d tasks, want at most 1.2 each", hints, len(rows))
		}
		t.Logf("%d hints of %d tasks", hints, len(rows))
	})
}

func (known) Partition(string) int { return 0 }
