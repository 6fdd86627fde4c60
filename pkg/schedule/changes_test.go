package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var errFull = errors.New("the pet is full")

// heard is what the functions of a client have seen: a text for each call.
type heard struct {
	mu     sync.Mutex
	in, on []string
}

func (h *heard) inChange(_ context.Context, _ *schedule.Tx, changes []schedule.Change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.in = append(h.in, textOf(changes))
	return nil
}

func (h *heard) onChange(_ context.Context, changes []schedule.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = append(h.on, textOf(changes))
}

// all returns what was seen in transactions, and after commits.
func (h *heard) all() (in, on []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.in, h.on
}

// textOf names for each task its versions of before and after, and its state.
func textOf(changes []schedule.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %d-%d %s", c.After.Owner, c.Before.Version, c.After.Version, c.After.State))
	}
	return strings.Join(all, ", ")
}

func onSQLite(t *testing.T) *world {
	t.Helper()
	return onStore(t, worldtest.NewSQLite(t, "test"))
}

// client is another client of the world. done closes it, after which everything is reported.
func (w *world) client(t *testing.T, cfg schedule.Config) (c *schedule.Client, done func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := schedule.New(cfg, w.store, w, w)
	pipelinetest.Must(t, err)
	var once sync.Once
	done = func() { once.Do(func() { c.Close(context.Background()) }) }
	t.Cleanup(done)
	return c, done
}

// Each way to change tasks shows each task once, as it was before and as it commits; nothing else is shown.
func TestChangesAreSeenEachWay(t *testing.T) {
	t.Parallel()
	for name, newWorld := range map[string]func(t *testing.T) *world{
		"sqlite": onSQLite, "mysql": func(t *testing.T) *world { t.Helper(); return newWorld(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for way, test := range waysToChange {
				row := w.make(t, "ann")
				var both, alone heard
				c, done := w.client(t, schedule.Config{InChange: both.inChange, OnChange: both.onChange})
				pipelinetest.Must(t, test.do(t.Context(), w, c, row.ID))
				done()
				in, on := both.all()
				if d := cmp.Diff(test.in, in); d != "" {
					t.Errorf("%s: InChange saw (-want +got):\n%s", way, d)
				}
				if d := cmp.Diff(test.want(), on); d != "" {
					t.Errorf("%s: OnChange saw (-want +got):\n%s", way, d)
				}
				row = w.make(t, "ann")
				c, done = w.client(t, schedule.Config{OnChange: alone.onChange})
				pipelinetest.Must(t, test.do(t.Context(), w, c, row.ID))
				done()
				if _, on := alone.all(); !cmp.Equal(test.want(), on) {
					t.Errorf("%s: without InChange OnChange saw %q, want %q", way, on, test.want())
				}
			}
		})
	}
}

type wayToChange struct {
	in []string // seen in transactions
	on []string // seen after commits; nil: the same
	do func(ctx context.Context, w *world, c *schedule.Client, ann task.ID) error
}

func (y wayToChange) want() []string {
	if y.on == nil {
		return y.in
	}
	return y.on
}

// joined runs fn in a transaction that the service has begun, and that end ends.
func joined(ctx context.Context, w *world, c *schedule.Client, fn func(j *schedule.Joined, own func(text string) error) error,
	end func(j *schedule.Joined, own interface{ Commit() error }) error,
) error {
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	j := c.Join(tx)
	own := func(text string) error { _, err := tx.ExecContext(ctx, text); return err }
	if err := fn(j, own); err != nil {
		return err
	}
	return end(j, tx)
}

var waysToChange = map[string]wayToChange{
	"one": {in: []string{"bob 0-1 pending"}, do: func(ctx context.Context, _ *world, c *schedule.Client, _ task.ID) error {
		_, err := c.Schedule(ctx, meal.New("bob", 1, task.In(time.Hour)))
		return err
	}},
	"one by a key": {in: []string{"key 0-1 pending", "key 1-2 pending", "key 2-3 cancelled"}, do: func(ctx context.Context, _ *world, c *schedule.Client, _ task.ID) error {
		var row task.Task
		for range 2 {
			var err error
			if row, err = c.Schedule(ctx, meal.New("key", 1, task.In(time.Hour), task.KeyMove("k"))); err != nil {
				return err
			}
		}
		_, err := c.Cancel(ctx, row.ID)
		return err
	}},
	"shift and cancel": {in: []string{"ann 1-2 pending", "ann 2-3 cancelled"}, do: func(ctx context.Context, _ *world, c *schedule.Client, ann task.ID) error {
		if _, err := c.Shift(ctx, ann, time.Minute); err != nil {
			return err
		}
		_, err := c.Cancel(ctx, ann)
		return err
	}},
	"several in a transaction": {in: []string{"ann 1-3 pending, bob 0-1 pending"}, do: func(ctx context.Context, _ *world, c *schedule.Client, ann task.ID) error {
		return c.InTx(ctx, func(tx *schedule.Tx) error {
			for range 2 {
				if _, err := tx.Shift(ctx, ann, time.Minute); err != nil {
					return err
				}
			}
			_, err := tx.Schedule(ctx, meal.New("bob", 1, task.In(time.Hour)))
			return err
		})
	}},
	"a savepoint": {in: []string{"ann 1-2 pending"}, do: func(ctx context.Context, _ *world, c *schedule.Client, ann task.ID) error {
		return c.InTx(ctx, func(tx *schedule.Tx) error {
			_, err := tx.Shift(ctx, ann, time.Minute)
			for _, text := range []string{"SAVEPOINT own", "", "ROLLBACK TO SAVEPOINT own"} {
				if text != "" && err == nil {
					_, err = tx.ExecContext(ctx, text)
				} else if err == nil {
					_, err = tx.Cancel(ctx, ann)
				}
			}
			return err
		})
	}},
	"nothing": {do: func(ctx context.Context, _ *world, c *schedule.Client, _ task.ID) error {
		return c.InTx(ctx, func(tx *schedule.Tx) error { _, err := tx.Now(ctx); return err })
	}},
	"rolled back": {do: func(ctx context.Context, _ *world, c *schedule.Client, ann task.ID) error {
		err := c.InTx(ctx, func(tx *schedule.Tx) error {
			_, err := tx.Cancel(ctx, ann)
			return errors.Join(err, errFull)
		})
		if errors.Is(err, errFull) {
			return nil
		}
		return errors.New("the error got lost")
	}},
	"a recurrence": {in: []string{"ann 0-1 pending", "ann 1-2 cancelled"}, do: func(ctx context.Context, _ *world, c *schedule.Client, _ task.ID) error {
		if _, err := c.Recur(ctx, "weekly", weekly, meal.Recurring("ann", 1), recur.Policy{}); err != nil {
			return err
		}
		_, err := c.StopRecurrence(ctx, "ann", "weekly")
		return err
	}},
	"a transaction of the service's own": {in: []string{"ann 1-2 pending"}, do: func(ctx context.Context, w *world, c *schedule.Client, ann task.ID) error {
		return joined(ctx, w, c, func(j *schedule.Joined, _ func(string) error) error {
			_, err := j.Shift(ctx, ann, time.Minute)
			return err
		}, func(j *schedule.Joined, _ interface{ Commit() error }) error { return j.Commit(ctx) })
	}},
	"a savepoint that nobody follows": {in: []string{"ann 1-2 pending, kim 0-1 pending"}, do: func(ctx context.Context, w *world, c *schedule.Client, ann task.ID) error {
		return joined(ctx, w, c, func(j *schedule.Joined, own func(string) error) error {
			_, err := j.Shift(ctx, ann, time.Minute)
			err = errors.Join(err, own("SAVEPOINT own"))
			_, again := j.Shift(ctx, ann, time.Minute)
			_, made := j.Schedule(ctx, meal.New("bob", 1, task.In(time.Hour)))
			err = errors.Join(err, again, made, own("ROLLBACK TO SAVEPOINT own"))
			_, made = j.Schedule(ctx, meal.New("kim", 1, task.In(time.Hour)))
			return errors.Join(err, made)
		}, func(j *schedule.Joined, _ interface{ Commit() error }) error { return j.Commit(ctx) })
	}},
	"a commit by somebody else": {on: []string{"ann 1-2 pending"}, do: func(ctx context.Context, w *world, c *schedule.Client, ann task.ID) error {
		return joined(ctx, w, c, func(j *schedule.Joined, _ func(string) error) error {
			_, err := j.Shift(ctx, ann, time.Minute)
			return err
		}, func(j *schedule.Joined, own interface{ Commit() error }) error {
			return errors.Join(own.Commit(), j.Index(ctx))
		})
	}},
}

// What InChange writes and schedules commits with the change. Its error, and its panic, roll everything back, and come out.
func TestInChangeIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	w := onSQLite(t)
	w.counters(t, 1)
	var h heard
	c, done := w.client(t, schedule.Config{OnChange: h.onChange, InChange: func(ctx context.Context, tx *schedule.Tx, changes []schedule.Change) error {
		if err := add(ctx, tx, 0); err != nil {
			return err
		}
		switch changes[0].After.Owner {
		case "full":
			return errFull
		case "sick":
			panic("sick")
		}
		_, err := tx.Schedule(ctx, meal.New("reminder", 1, task.In(time.Minute)))
		return err
	}})
	ctx := t.Context()
	for owner, part := range map[string]string{"full": "InChange: " + errFull.Error(), "sick": "InChange panicked: sick"} {
		_, err := c.Schedule(ctx, meal.New(owner, 1, task.In(time.Hour)))
		if err == nil || !strings.Contains(err.Error(), part) || errors.Is(err, errFull) != (owner == "full") {
			t.Errorf("%s: got error %v, want one with %q", owner, err, part)
		}
	}
	if n := w.store.Number("SELECT (SELECT SUM(n) FROM counters) + (SELECT COUNT(*) FROM duetime_tasks)"); n != 0 {
		t.Errorf("%d rows of refused transactions stand", n)
	}
	row, err := c.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	done()
	if n := w.store.Number("SELECT SUM(n) FROM counters"); n != 1 {
		t.Errorf("InChange has written %d times, want once", n)
	}
	if got := w.put(row.ID); len(got) != 1 || len(w.Puts()) != 2 {
		t.Errorf("%d tasks were put, want the task and its reminder", len(w.Puts()))
	}
	if _, on := h.all(); !cmp.Equal([]string{"ann 0-1 pending, reminder 0-1 pending"}, on) {
		t.Errorf("OnChange saw %q", on)
	}
}

// A transaction that runs again shows each try to InChange, and one commit to OnChange.
func TestInChangeMayAskForAnotherTry(t *testing.T) {
	t.Parallel()
	w := onSQLite(t)
	var h heard
	tries := 0
	c, done := w.client(t, schedule.Config{OnChange: h.onChange, InChange: func(context.Context, *schedule.Tx, []schedule.Change) error {
		if tries++; tries == 1 {
			return schedule.ErrRolledBack // as a deadlock
		}
		return nil
	}})
	_, err := c.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	done()
	if _, on := h.all(); tries != 2 || !cmp.Equal([]string{"ann 0-1 pending"}, on) {
		t.Errorf("after %d tries OnChange saw %q", tries, on)
	}
}

// Nobody waits for OnChange, whatever it does: the call that it hears of, later ones, or Close.
func TestOnChangeHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := onSQLite(t)
	reg := prometheus.NewRegistry()
	var log strings.Builder
	called, free, left := make(chan string, 10), make(chan struct{}), make(chan struct{})
	c, done := w.client(t, schedule.Config{
		DrainTime: 100 * time.Millisecond, Metrics: reg, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		OnChange: func(_ context.Context, changes []schedule.Change) {
			called <- changes[0].After.Owner
			if changes[0].After.Owner == "sick" {
				panic("sick")
			}
			<-free
			close(left)
		},
	})
	for _, owner := range []string{"sick", "slow", "late"} {
		_, err := c.Schedule(t.Context(), meal.New(owner, 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
	}
	for _, want := range []string{"sick", "slow"} {
		if got := <-called; got != want {
			t.Errorf("OnChange was called about %s, want %s", got, want)
		}
	}
	done()
	if text := log.String(); !strings.Contains(text, "OnChange panicked") {
		t.Errorf("the panic is not in the log:\n%s", text)
	}
	close(free)
	<-left
	pipelinetest.Await(t, "what waited is counted as dropped", func() bool {
		return worldtest.Sum(t, reg, "duetime_changes_dropped_total") == 1
	})
}

// Of a commit whose answer is lost OnChange hears nothing, whether it has happened or not.
func TestOnChangeClaimsNoUnknownCommit(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(p *pipelinetest.ToxicProxy){
		"answer lost": (*pipelinetest.ToxicProxy).CutDownstream, "request lost": (*pipelinetest.ToxicProxy).CutUpstream,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, proxy := behindProxy(t, newWorld(t))
			var h heard
			c, done := w.client(t, schedule.Config{OnChange: h.onChange})
			err := c.InTx(t.Context(), func(tx *schedule.Tx) error {
				_, err := tx.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour)))
				cut(proxy)
				return err
			})
			wantIs(t, err, schedule.ErrCommitUnknown)
			done()
			if _, on := h.all(); len(on) > 0 {
				t.Errorf("OnChange saw %q", on)
			}
		})
	}
}
