package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// lead runs a term of r until the test ends it.
func lead(t *testing.T, r *Reconciler, epoch int64, told Term) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Lead(ctx, epoch, told) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			t.Fatal("the term did not end")
			return nil
		}
	}
}

// soon makes rows that are due an hour from the database's time.
func soon(owner string) task.Task {
	one := pending(owner, 0)
	one.DueAt = time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	one.RunAt = one.DueAt
	return one
}

func TestTwoDaemonsOverlapAndTheOlderEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	other, err := New(w.cfg, w.rows, w.sets, w.hints)
	pipelinetest.Must(t, err)
	older, err := w.rows.Take(t.Context(), "daemon")
	pipelinetest.Must(t, err)
	var first, second worldtest.Term
	stopFirst := lead(t, w.Reconciler, older, &first)
	for i := range 3 {
		w.insert(t, soon("ann"), soon("bob"))
		if i == 1 {
			newer, err := w.rows.Take(t.Context(), "daemon")
			pipelinetest.Must(t, err)
			stopSecond := lead(t, other, newer, &second)
			defer func() { pipelinetest.Must(t, stopSecond()) }()
			pipelinetest.Await(t, "the older daemon to be fenced", func() bool { _, by := first.Seen(); return by == newer })
		}
	}
	if err := stopFirst(); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v, want %v", err, ErrFenced)
	}
	pipelinetest.Await(t, "both sets to say what the rows say", func() bool { return len(w.members(t)) == 12 })
	w.wantTruth(t)
}

func TestEndOfTheContextReturnsPromptly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	pipelinetest.Await(t, "the first passes", func() bool { n, _ := told.Seen(); return n > 0 })
	begun := time.Now()
	pipelinetest.Must(t, stop())
	if took := time.Since(begun); took > 9*time.Second { // without its own timeout a wait takes ten seconds and more
		t.Errorf("took %v", took)
	}
}

// downStore is a database that is away while down is set.
type downStore struct {
	Store
	down *atomic.Bool
}

func (d downStore) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if d.down.Load() {
		return nil, errors.New("mysql away")
	}
	return d.Store.Entries(ctx, ids)
}

func TestRequestWakesTheRebuildOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	pipelinetest.Must(t, w.compensate(t.Context(), []protocol.Compensation{{Rebuild: []int{0}}, {Rebuild: []int{1, 2}}}))
	if got := len(w.wake); got != 1 {
		t.Errorf("got %d wake-ups, want 1 for all requests", got)
	}
}

func (w *world) purgeBehind(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	pipelinetest.Must(t, w.metrics.purgeBehind.Write(&m))
	return m.GetGauge().GetValue()
}

func TestPurgeKeepsRetentionAndBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.cfg.Retention = time.Hour
	rows := w.insert(t, many(purgeBatch+20)...)
	w.now = base.Add(-2 * time.Hour)
	for _, row := range rows[:purgeBatch+10] {
		w.save(t, w.cancelled(t, row))
	}
	w.now = base.Add(-30 * time.Minute)
	kept := w.save(t, w.cancelled(t, rows[purgeBatch+10]))
	w.now = base
	if res := w.run(t, newPurge(w.Reconciler).pass); !res.More {
		t.Error("a full batch did not ask for another one")
	}
	if got := w.purgeBehind(t); got != time.Hour.Seconds() {
		t.Errorf("behind by %v s after a full batch, want an hour", got)
	}
	if got := w.left(t, rows); got != 20 {
		t.Errorf("%d rows left after a batch of %d, want 20", got, purgeBatch)
	}
	w.run(t, newPurge(w.Reconciler).pass)
	if got := w.left(t, rows); got != 10 {
		t.Errorf("%d rows left, want the 9 pending ones and the one within its retention", got)
	}
	if got := w.purgeBehind(t); got != 0 {
		t.Errorf("behind by %v s after the last batch", got)
	}
	if w.left(t, []task.Task{kept}) != 1 {
		t.Error("a row within its retention was purged")
	}
}

func TestPurgeWaitsForTheLastComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.cfg.Retention = time.Second
	row := w.insert(t, pending("ann", time.Hour))[0]
	w.save(t, w.cancelled(t, row))
	w.now = base.Add(w.cfg.Longest + windowMargin) // where the changed pass still looks
	w.run(t, newPurge(w.Reconciler).pass)
	if w.left(t, []task.Task{row}) != 1 {
		t.Error("purged while it was still to be compared")
	}
	w.now = w.now.Add(2 * windowMargin)
	w.run(t, newPurge(w.Reconciler).pass)
	if w.left(t, []task.Task{row}) != 0 {
		t.Error("kept beyond its retention")
	}
}

func (w *world) left(t testing.TB, tasks []task.Task) int {
	t.Helper()
	rows, err := w.rows.Get(t.Context(), nil, protocol.IDs(tasks))
	pipelinetest.Must(t, err)
	return len(rows)
}

// A pass over a million overdue rows must not take a core for the whole outage.
func TestLongPassRests(t *testing.T) {
	t.Parallel()
	if slept := sleepOf(t, 50*time.Millisecond, byTime, 0); slept < 100*time.Millisecond {
		t.Errorf("slept %v after a run of 50 ms, want 100 ms or more", slept)
	}
}

// A burst has hundreds of thousands of overdue rows whose entries are right.
func TestLongCalmRunRestsBetweenItsPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &Reconciler{}
		b := r.sweep(pass{sleep: longer, yields: true}, time.Now)
		slept := func() time.Duration {
			time.Sleep(10 * time.Millisecond)
			b.looked = page
			began := time.Now()
			pipelinetest.Must(t, b.wait(t.Context()))
			return time.Since(began)
		}
		for range 2 {
			if got, want := slept(), idleShare*10*time.Millisecond; got != want {
				t.Errorf("slept %v after 10 ms, want %v", got, want)
			}
		}
		b.extra = 25 * time.Millisecond
		for _, want := range []time.Duration{25 * time.Millisecond, sleepShare * 10 * time.Millisecond} {
			if got := slept(); got != want {
				t.Errorf("slept %v at the end of its longer rests, want %v", got, want)
			}
		}
		r.filling.Store(true)
		time.AfterFunc(10*yieldInterval+1, func() { r.filling.Store(false) })
		r.alarms.Add(1)
		if got := slept(); got < 10*yieldInterval {
			t.Errorf("went on %v after a rebuild began, want 5 s: as long as it took", got)
		}
		if got := slept(); got != 0 {
			t.Errorf("slept %v once something was found to mend", got)
		}
	})
}

func TestCalmPassesRestBetweenTheirPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := make([]task.Task, page+100)
	for i := range rows {
		rows[i] = pending("ann", time.Hour)
		rows[i].UpdatedAt = base
	}
	for part := range slices.Chunk(rows, page) {
		w.put(t, w.insert(t, part...)...)
	}
	expect := func(when string, c *changed, want int) {
		t.Helper()
		w.now = base.Add(sec(2))
		if looked := w.looked(t, "changed", c.pass); looked != want {
			t.Errorf("%s: %d rows since the last sleep, want %d", when, looked, want)
		}
	}
	unknown := new(changed)
	expect("another Redis, where much may be missing", unknown, len(rows))
	expect("nothing to mend", &changed{identity: unknown.identity}, 100)
	w.between(func() { w.alarm(t.Context(), "tested", 1) })
	expect("something was found", &changed{identity: unknown.identity}, len(rows))

	soon := make([]task.Task, 2*smallPage+1)
	for i := range soon {
		soon[i] = pending("bob", sec(6))
	}
	w.put(t, w.insert(t, soon...)...)
	l := new(lookahead)
	if looked := w.looked(t, "lookahead", l.pass); looked != 1 {
		t.Errorf("lookahead: %d rows since the last sleep, want 1", looked)
	}
	was := w.now
	w.between(func() { w.now = was.Add(time.Minute) })
	if looked := w.looked(t, "lookahead", l.pass); looked != 0 {
		t.Errorf("lookahead: %d rows after a slept in which they became due, want none", looked)
	}
	w.now = was

	late := make([]task.Task, page+1)
	for i := range late {
		late[i] = pending("bob", -time.Minute)
	}
	for part := range slices.Chunk(late, page) {
		w.put(t, w.insert(t, part...)...)
	}
	if looked := w.looked(t, "overdue", new(overdue).pass); looked != 1 {
		t.Errorf("overdue: %d rows since the last sleep, want 1", looked)
	}
}

// looked runs a pass under its name, and returns how many rows it has looked at since its last sleep.
func (w *world) looked(t testing.TB, name string, run sweepRun) int {
	t.Helper()
	passes := w.passes()
	p := passes[slices.IndexFunc(passes, func(p pass) bool { return p.name == name })]
	p.run = run
	s := w.sweep(p, w.clock)
	_, err := s.runPass(t.Context())
	pipelinetest.Must(t, err)
	return s.looked
}

// Waiting, as for a database that is away, does not count as work.
func TestPassThatWaitedGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	const waited = 2 * time.Second
	if slept := sleepOf(t, waited, longer, 10); slept > 5*waited { // ten times as long, if waiting counted as work
		t.Errorf("slept %v after a run that waited for %v to look at 10 rows", slept, waited)
	}
}

// A pass that put many missing rows must not sleep ten times as long as these puts took.
func TestPassesOverRowsCountThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := []task.Task{pending("ann", -sec(30)), pending("ann", sec(8)), pending("bob", sec(30)), pending("cid", time.Hour)}
	for i := range rows {
		rows[i].UpdatedAt = base
	}
	w.insert(t, rows...)
	w.now = base.Add(sec(2))
	want := map[string]int{"lookahead": 2, "overdue": 1, "changed": 4}
	for _, p := range w.passes() {
		if rows, counts := want[p.name]; counts {
			if looked := w.looked(t, p.name, p.run); looked != rows {
				t.Errorf("pass %s looked at %d rows, want %d", p.name, looked, rows)
			}
		}
	}
}

// sleepOf runs a pass twice, the first run taking long for so many rows, and returns the sleep between the runs.
func sleepOf(t *testing.T, long time.Duration, sleep sleepRule, looked int) time.Duration {
	t.Helper()
	w := newWorld(t, Config{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var began, ended []time.Time
	slow := pass{name: "slow", interval: time.Millisecond, sleep: sleep, run: func(_ context.Context, s *sweep) (loop.Result, error) {
		began = append(began, time.Now())
		if len(began) == 2 {
			cancel()
			return loop.Result{}, nil
		}
		time.Sleep(long)
		s.looked = looked
		ended = append(ended, time.Now())
		return loop.Result{More: true}, nil
	}}
	pipelinetest.Must(t, w.repeat(ctx, slow, 1, &worldtest.Term{}))
	return began[1].Sub(ended[0])
}

func TestNewRefusesWhatCantWork(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}, nil, nil, nil); err == nil {
		t.Error("a configuration without Layout passed")
	}
}

// During an outage every write of the game, the worker and the daemon is lost without an error.
func TestOutageOfTheIndexHeals(t *testing.T) {
	t.Parallel()
	w, mini := onMiniredis(t)
	gone := w.insert(t, soon("ann"))[0]
	w.put(t, gone)
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	pipelinetest.Await(t, "the markers", func() bool { return w.marked(t) })
	mini.SetError("LOADING away")
	w.now = time.Now()
	late := soon("bob")
	late.RunAt = time.Now().Add(-30 * time.Second).Truncate(time.Millisecond).UTC()
	w.insert(t, soon("ann"), late)
	w.save(t, w.cancelled(t, gone))
	sweep := w.auditRows()
	if _, err := w.try(t.Context(), sweep.pass); err == nil {
		t.Error("a pass went well while the index was away")
	}
	mini.SetError("")
	begun := time.Now()
	pipelinetest.Await(t, "both sets to say what the rows say", func() bool { return maps.Equal(w.truth(t), w.members(t)) })
	t.Logf("healed after %v", time.Since(begun))
	pipelinetest.Must(t, stop())
}
