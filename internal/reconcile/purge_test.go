package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// purgeStore is a store whose purge of tasks, or of history, may fail.
type purgeStore struct {
	Store
	tasks, history *error
}

func (s purgeStore) Purge(ctx context.Context, of protocol.Purgeable, before time.Time, limit int) (int, bool, time.Time, error) {
	if *s.tasks != nil {
		return 0, false, time.Time{}, *s.tasks
	}
	return s.Store.Purge(ctx, of, before, limit)
}

func (s purgeStore) PurgeHistory(ctx context.Context, before time.Time, limit int) (int, error) {
	if *s.history != nil {
		return 0, *s.history
	}
	return s.Store.PurgeHistory(ctx, before, limit)
}

// A purge that fails keeps no other one from its rows. How far the purge of tasks is behind grows while it fails.
func TestPurgesFailAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.cfg.Retention = time.Hour
	refused := errors.New("DELETE command denied")
	var tasks, history error
	w.store = purgeStore{w.store, &tasks, &history}
	p := newPurge(w.Reconciler)
	fails := func() {
		t.Helper()
		if _, err := p.pass(t.Context(), w.clock); !errors.Is(err, refused) {
			t.Errorf("the pass ended with %v, want what was refused", err)
		}
	}
	id := task.NewID()
	old := func() protocol.Event {
		return protocol.Event{At: w.now.Add(-2 * time.Hour), Task: id, Name: protocol.EventMoved}
	}
	lines := func() int {
		t.Helper()
		events, err := w.rows.History(t.Context(), id, 10)
		pipelinetest.Must(t, err)
		return len(events)
	}
	w.run(t, p.pass)
	row := w.insert(t, pending("ann", time.Hour))[0]
	row = w.save(t, w.cancelled(t, row))

	tasks = refused
	w.now = base.Add(3 * time.Hour)
	pipelinetest.Must(t, w.rows.Record(t.Context(), nil, []protocol.Event{old()}))
	fails()
	if n := lines(); n != 0 {
		t.Errorf("%d old lines of the history are left while the purge of tasks fails", n)
	}
	if got := w.purgeBehind(t); got != (3 * time.Hour).Seconds() {
		t.Errorf("behind by %v s after three hours of failures", got)
	}

	tasks, history = nil, refused
	pipelinetest.Must(t, w.rows.Record(t.Context(), nil, []protocol.Event{old()}))
	fails()
	if w.left(t, []task.Task{row}) != 0 || lines() != 1 {
		t.Error("a finished task is left while the purge of the history fails, or that did not fail")
	}
	if got := w.purgeBehind(t); got != 0 {
		t.Errorf("behind by %v s after the purge of tasks", got)
	}
	history = nil
	w.run(t, p.pass)
	if n := lines(); n != 0 {
		t.Errorf("%d old lines of the history are left", n)
	}
}

// What ended a quarter of an hour ago leaves the table of pending tasks, and stays for its retention. What the changed pass has still to compare
// stays where it is.
func TestArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		Config
		after time.Duration
	}{
		"a quarter of an hour":      {Config{Retention: time.Hour}, 15 * time.Minute},
		"after the last comparison": {Config{Retention: time.Hour, Longest: 20 * time.Minute}, 20*time.Minute + 2*windowMargin},
		"never, where it is purged": {Config{Retention: time.Minute}, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.Config)
			stands := func() (n int) {
				pipelinetest.Must(t, w.rows.DB().Get(&n, "SELECT COUNT(*) FROM duetime_tasks"))
				return n
			}
			row := w.insert(t, pending("ann", time.Hour))[0]
			w.insert(t, pending("ann", 24*time.Hour))
			row = w.save(t, w.cancelled(t, row))
			w.now = base.Add(c.after)
			w.run(t, w.archive)
			if n := stands(); n != 2 {
				t.Errorf("%d rows before it is time, want 2", n)
			}
			w.now = w.now.Add(time.Millisecond)
			w.run(t, w.archive)
			if n := stands(); n != 1 {
				t.Errorf("%d rows then, want the pending one", n)
			}
			w.now = base.Add(c.Retention)
			p := newPurge(w.Reconciler)
			w.run(t, p.pass)
			if c.Retention > c.after && w.left(t, []task.Task{row}) != 1 {
				t.Error("purged before its retention is over")
			}
			w.now = base.Add(max(c.Retention, c.after) + time.Second)
			w.run(t, p.pass)
			if n := w.left(t, []task.Task{row}); n != 0 {
				t.Error("kept beyond its retention")
			}
		})
	}
}

// Only the daemon that leads knows how far the purge is behind.
func TestPurgeIsBehindWhileTheTermLasts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.store = lapStore{w.store}
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	pipelinetest.Await(t, "the first purge", func() bool { return w.purgeBehind(t) > 0 })
	pipelinetest.Must(t, stop())
	if got := w.purgeBehind(t); got != 0 {
		t.Errorf("behind by %v s after the term", got)
	}
}

// lapStore is a store whose purges have far to go.
type lapStore struct{ Store }

func (lapStore) Purge(context.Context, protocol.Purgeable, time.Time, int) (int, bool, time.Time, error) {
	return purgeBatch, true, base.Add(-24 * time.Hour), nil
}

// Done and cancelled tasks of kinds with a retention of their own are kept for it, in both tables; all others, and dead ones, for the general one.
func TestRetentionByKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Retention: 2 * time.Hour, RetentionByKind: map[string]time.Duration{
		"ping": time.Minute, "beat": time.Minute, "bill": 4 * time.Hour, "note": time.Hour,
	}})
	p := newPurge(w.Reconciler)
	rows := map[string]task.Task{}
	for _, kind := range []string{"ping", "beat", "bill", "note", "else"} {
		made := []task.Task{pending("ann", time.Hour), pending("ann", time.Hour)}
		made[0].Kind, made[1].Kind = kind, kind
		made = w.insert(t, made...)
		rows[kind] = w.save(t, w.cancelled(t, made[0]))
		rows[kind+" dead"] = w.save(t, transition.Discard(made[1], errors.New("enough"), w.now))
	}
	for _, c := range []struct {
		after time.Duration
		left  []string
	}{
		{0, []string{"beat", "bill", "else", "note", "ping"}},
		{time.Minute + time.Second, []string{"bill", "else", "note"}},
		{30 * time.Minute, []string{"bill", "else", "note"}},
		{time.Hour + time.Second, []string{"bill", "else"}},
		{2*time.Hour + time.Second, []string{"bill"}},
		{4*time.Hour + time.Second, nil},
	} {
		w.now = base.Add(c.after)
		w.run(t, p.pass)
		w.run(t, w.archive)
		var left []string
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if w.left(t, []task.Task{rows[name]}) > 0 {
				left = append(left, name)
			}
		}
		want := c.left
		if c.after <= 2*time.Hour {
			want = append(slices.Clone(want), "beat dead", "bill dead", "else dead", "note dead", "ping dead")
			slices.Sort(want)
		}
		if d := cmp.Diff(want, left); d != "" {
			t.Errorf("left after %v (-want +got):\n%s", c.after, d)
		}
		if got := w.purgeBehind(t); got != 0 {
			t.Errorf("behind by %v s after %v", got, c.after)
		}
	}
}

// What is left of a queue that nobody uses goes after its time, and the history tells of it. A queue of the daemon's configuration stays.
func TestPurgeForgetsUnusedQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Queues: []string{"ours"}, Retention: time.Hour})
	ctx := t.Context()
	for _, queue := range []string{"gone", "ours"} {
		pipelinetest.Must(t, w.rows.SetRate(ctx, w.rows.DB(), queue, &task.Rate{Calls: 1, Per: time.Second}))
	}
	p := newPurge(w.Reconciler)
	left := func(want int) {
		t.Helper()
		w.run(t, p.pass)
		limits, err := w.rows.Limits(ctx)
		pipelinetest.Must(t, err)
		if _, stays := limits["ours"]; len(limits) != want || !stays {
			t.Errorf("limits are left of %v, want %d", limits, want)
		}
	}
	left(2)
	w.now = base.Add(queueKept - time.Minute)
	left(2)
	w.now = base.Add(queueKept + time.Minute)
	left(1)
	var told int
	pipelinetest.Must(t, w.rows.DB().Get(&told, "SELECT COUNT(*) FROM duetime_history WHERE event = ? AND detail = 'gone'", protocol.EventRetired))
	if told != 1 {
		t.Errorf("the history tells of it %d times", told)
	}
}
