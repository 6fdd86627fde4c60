package duetimetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Values of Fired.Result.
const (
	Done    = "done"    // the handler's effect has committed
	Failed  = "failed"  // an attempt was charged; the task runs again after its backoff
	Snoozed = "snoozed" // the handler answered worker.Snooze
	Dead    = "dead"    // the last attempt was charged, or the handler answered worker.Discard
	Skipped = "skipped" // not run: too late for the catch-up window of its kind
)

// Fired is one run of a task.
type Fired struct {
	task.Task           // the row after the run: its state, its attempts, its next run time
	At        time.Time // when the task ran, on Fire's clock
	Result    string    // Done, Failed, Snoozed, Dead or Skipped
	Err       error     // the handler's error, if it failed
}

const (
	maxMoments  = 1000             // with more due times, the tasks probably follow each other forever
	fireTime    = 5 * time.Minute  // for one call of Fire
	handlerTime = 10 * time.Second // for a call of a handler without a timeout of its own, as in a worker
	lockTime    = 5 * time.Second  // for which another transaction may lock a row
	lockPause   = 10 * time.Millisecond
	pageSize    = 1000
)

// Fire runs all tasks of the mux's kinds that are due by until, each at its own time on a clock that steps from one due
// time to the next. It returns the runs in that order. Tasks that become due by until meanwhile run too: follow-ups that
// a handler scheduled, failed tasks after their backoff, snoozed ones after their delay. Inside a handler worker.Tx.Now
// and task.In use that clock, which is never behind the database's. After Fire the rows keep the times that were written,
// and the clock is the database's again.
//
// Fire doesn't run tasks of other kinds; it names them in the test's log. A handler that fails doesn't fail the test: its
// Fired has the error. Fire fails the test if a task's row stays locked (by a transaction that the test left open), if
// the database fails, and if the tasks don't end: after a thousand different due times.
//
// A story of several steps, whose client goes by the same time, is told by a Clock.
//
// Kinds with outside handlers are called as well: give the mux a stand-in for handlers that must not act in a test. The
// mux's middleware and hooks are called as in production; the hooks are through when Fire returns.
func Fire(t testing.TB, db DB, mux *worker.Mux, until time.Time, opts ...Option) []Fired {
	t.Helper()
	return fire(t, &ahead{tables: opened(t, db)}, mux, until, opts)
}

func fire(t testing.TB, store *ahead, mux *worker.Mux, until time.Time, opts []Option) []Fired {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), fireTime)
	defer cancel()
	f := &firing{kinds: mux.Kinds(), store: store, until: until}
	o := chosen(opts)
	c := client(t, store, options{in: o.in, on: o.on})
	defer c.Close(ctx)
	cfg := workerConfig(t, mux, o)
	cfg.Hooks = schedule.InsideClient(inside.Key{}, c).Ledger().Hooks()
	var err error
	if f.worker, err = engine.New(cfg, mux, f.store, nil, nowhere{}, nowhere{}); err != nil {
		t.Fatalf("duetimetest.Fire: %v", err)
	}
	if err := f.run(ctx); err != nil {
		t.Fatalf("duetimetest.Fire: %v%s", err, f.story())
	}
	if left := f.left(ctx); len(left) > 0 {
		t.Logf("duetimetest.Fire: left pending, no handler in the mux for kind: %s", strings.Join(left, ", "))
	}
	return f.fired
}

func workerConfig(t testing.TB, mux *worker.Mux, o options) engine.Config {
	return engine.Config{
		HandlerTimeout: max(handlerTime, engine.LongestTimeout(mux)), BeforeSchedule: o.before,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// firing is one call of Fire.
type firing struct {
	worker *engine.Worker
	kinds  []string
	store  *ahead
	until  time.Time
	fired  []Fired
}

// run steps from one due time to the next until nothing is due any more.
func (f *firing) run(ctx context.Context) error {
	for range maxMoments {
		next, err := f.due(ctx, f.until, 1)
		if err != nil || len(next) == 0 {
			return err
		}
		if err := f.moment(ctx, next[0].RunAt); err != nil {
			return err
		}
	}
	return fmt.Errorf("tasks follow each other without an end: after %d due times some are due by %s still", maxMoments, clock(f.until))
}

// moment runs the tasks that are due at one time, and the tasks that are overdue by the database's clock.
func (f *firing) moment(ctx context.Context, at time.Time) error {
	now, err := f.store.step(ctx, at)
	if err != nil {
		return err
	}
	if now.After(f.until) {
		now = f.until
	}
	if now.After(at) {
		at = now
	}
	rows, err := f.due(ctx, at, pageSize)
	if err != nil || len(rows) == 0 { // somebody else has ended them
		return err
	}
	settled, err := f.pass(ctx, rows, len(rows))
	if err != nil || settled > 0 {
		return err
	}
	return f.singly(ctx, rows)
}

// singly runs each task in a transaction of its own, until a hint is settled: the tasks could not run together, or another
// transaction locks their rows.
func (f *firing) singly(ctx context.Context, rows []task.Task) error {
	for deadline := time.Now().Add(lockTime); ; {
		settled, err := f.pass(ctx, rows, 1)
		if err != nil || settled > 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s can't be run: is its row locked by a transaction that the test left open, or does it wait for an earlier task of its order key?", describe(rows[0]))
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pass offers the tasks once to the worker, each transaction with up to batch tasks. It counts the hints that were
// settled.
func (f *firing) pass(ctx context.Context, rows []task.Task, batch int) (settled int, err error) {
	for part := range slices.Chunk(rows, max(batch, 1)) {
		at, err := f.store.Now(ctx, nil)
		if err != nil {
			return settled, err
		}
		outcomes, err := f.worker.Pass(ctx, hints(part))
		if err != nil {
			return settled, err
		}
		n, err := f.record(ctx, outcomes, at)
		settled += n
		if err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// record keeps the runs among the outcomes, and counts the hints that were settled.
func (f *firing) record(ctx context.Context, outcomes []engine.Outcome, at time.Time) (settled int, err error) {
	for _, o := range outcomes {
		if o.Settled {
			settled++
		}
		switch o.Result {
		case Done, Failed, Snoozed, Dead, Skipped:
		default:
			continue
		}
		rows, err := f.store.Get(ctx, nil, []task.ID{o.ID})
		if err != nil {
			return settled, err
		}
		if len(rows) == 1 { // otherwise a handler of a later batch has deleted the row
			f.fired = append(f.fired, Fired{Task: rows[0], At: at, Result: o.Result, Err: o.Err})
		}
	}
	return settled, nil
}

// due returns the first pending tasks of the mux's kinds whose run time is at most by, in the order of their run times.
func (f *firing) due(ctx context.Context, by time.Time, limit int) ([]task.Task, error) {
	var found []task.Task
	err := f.pending(ctx, by, func(row task.Task) bool {
		if slices.Contains(f.kinds, row.Kind) {
			found = append(found, row)
		}
		return len(found) < limit
	})
	return found, err
}

// pending calls fn with each pending task up to the moment until fn returns false.
func (f *firing) pending(ctx context.Context, by time.Time, fn func(task.Task) bool) error {
	end := by.Truncate(time.Millisecond).Add(time.Millisecond)
	for after := (protocol.Cursor{}); ; {
		rows, err := f.store.Pending(ctx, time.UnixMilli(0), end, after, pageSize)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !fn(row) {
				return nil
			}
			after = protocol.Cursor{At: row.RunAt, ID: row.ID}
		}
		if len(rows) < pageSize {
			return nil
		}
	}
}

// left returns the kinds of due tasks that have no handler in the mux.
func (f *firing) left(ctx context.Context) []string {
	var kinds []string
	err := f.pending(ctx, f.until, func(row task.Task) bool {
		if !slices.Contains(kinds, row.Kind) {
			kinds = append(kinds, row.Kind)
		}
		return true
	})
	if err != nil {
		return []string{err.Error()}
	}
	return slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(f.kinds, kind) })
}

// story lists the last runs, for the message of a failure.
func (f *firing) story() string {
	var b strings.Builder
	for _, run := range f.fired[max(0, len(f.fired)-10):] {
		fmt.Fprintf(&b, "\n  ran %s: %s", describe(run.Task), run.Result)
		if run.Err != nil {
			fmt.Fprintf(&b, " (%v)", run.Err)
		}
	}
	return b.String()
}

func hints(rows []task.Task) []protocol.Hint {
	out := make([]protocol.Hint, len(rows))
	for i, row := range rows {
		out[i] = protocol.Hint{ID: row.ID, Kind: row.Kind, Owner: protocol.Route(row.Owner, row.OrderKey), RunAt: row.RunAt.UnixMilli(), Version: row.Version}
	}
	return out
}
