package schedule_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// wantRow wants the answer to be the row, and its version in the index.
func (w *world) wantRow(t testing.TB, what string, got task.Task) {
	t.Helper()
	if d := cmp.Diff(w.store.Row(got.ID), got); d != "" {
		t.Errorf("%s: the answer against the row (-want +got):\n%s", what, d)
	}
	_, _, err := w.Tasks(t.Context(), got.Owner, "") // waits for what is being put
	pipelinetest.Must(t, err)
	if put := w.put(got.ID); len(put) == 0 || put[len(put)-1] != got.Version {
		t.Errorf("%s: versions %v were put, want %d at the end", what, put, got.Version)
	}
}

func TestAnswerOfAChangeIsTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, when := range map[string]task.When{
		"in an hour": task.In(time.Hour), "in a while": task.In(1500*time.Microsecond + time.Second), "in the past": task.In(-time.Hour),
		"at": task.At(time.Now().Add(time.Hour)), "at the past": task.At(time.Now().Add(-time.Hour)),
	} {
		made, err := w.Schedule(t.Context(), meal.New("ann", 1, when, task.Subject("pet")))
		pipelinetest.Must(t, err)
		w.wantRow(t, name, made)
		if made.DueAt.Before(made.CreatedAt) || made.Version != 1 {
			t.Errorf("%s: due %v, made %v, version %d", name, made.DueAt, made.CreatedAt, made.Version)
		}
		again, err := w.Reschedule(t.Context(), made.ID, when)
		pipelinetest.Must(t, err)
		w.wantRow(t, name+", again", again)
		shifted, err := w.Shift(t.Context(), made.ID, time.Minute)
		pipelinetest.Must(t, err)
		w.wantRow(t, name+", shifted", shifted)
		if d := shifted.DueAt.Sub(again.DueAt); d != time.Minute || shifted.Version != 3 {
			t.Errorf("%s: shifted by %v to version %d, want a minute and 3", name, d, shifted.Version)
		}
		gone, err := w.Cancel(t.Context(), made.ID)
		pipelinetest.Must(t, err)
		w.wantRow(t, name+", cancelled", gone)
		_, err = w.Shift(t.Context(), made.ID, time.Minute)
		wantIs(t, err, task.ErrAlreadyCancelled)
	}
	_, err := w.Cancel(t.Context(), task.NewID())
	wantIs(t, err, task.ErrNotFound)
}

func TestSpecScheduledAgainIsOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := meal.New("ann", 1, task.In(time.Hour))
	made, err := w.Schedule(t.Context(), spec)
	pipelinetest.Must(t, err)
	moved, err := w.Shift(t.Context(), made.ID, time.Minute)
	pipelinetest.Must(t, err)
	again, err := w.Schedule(t.Context(), spec)
	pipelinetest.Must(t, err)
	if d := cmp.Diff(moved, again); d != "" {
		t.Errorf("the task as it stands against the answer (-want +got):\n%s", d)
	}
}

// Here the database's clock stands years behind this process's: what is past, and what isn't, goes by it alone.
func TestFixedMomentGoesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.OpenStore(t, newWorld(t).store.DSN+"?timestamp=1577836800", store.Options{}))
	now := time.Unix(1577836800, 0)
	for due, want := range map[time.Time]time.Time{now.Add(5 * time.Second): now.Add(5 * time.Second), now.Add(-time.Hour): now} {
		made, err := w.Schedule(t.Context(), meal.New("ann", 1, task.At(due)))
		pipelinetest.Must(t, err)
		w.wantRow(t, "made", made)
		if !made.DueAt.Equal(want) || !made.RunAt.Equal(want) || !made.CreatedAt.Equal(now) {
			t.Errorf("for %v: due %v, next try %v, made %v; want %v, made %v", due, made.DueAt, made.RunAt, made.CreatedAt, want, now)
		}
	}
}

// Callers who wait for rows that somebody has locked leave room for all others.
func TestLockedTasksHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	direct := newWorld(t)
	w := onStore(t, worldtest.OpenStore(t, direct.store.DSN, store.Options{LockWait: 90 * time.Second}))
	const held = 8
	ids := make([]task.ID, held)
	for i := range ids {
		ids[i] = w.make(t, "ann").ID
	}
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), holder, ids)
	pipelinetest.Must(t, err)

	var waiting sync.WaitGroup
	var moved atomic.Int64
	for i, id := range ids { // one after the other: those that come together share a transaction
		waiting.Go(func() {
			_, err := w.Shift(t.Context(), id, time.Second)
			pipelinetest.Must(t, err)
			moved.Add(1)
		})
		pipelinetest.Await(t, "one more to wait", func() bool {
			return pipelinetest.LockWaits(t, direct.store.DB()) == i+1
		})
	}
	free := w.make(t, "bob")
	_, err = w.Cancel(t.Context(), free.ID)
	pipelinetest.Must(t, err)
	if n := moved.Load(); n != 0 {
		t.Errorf("%d of the locked tasks were moved", n)
	}
	pipelinetest.Must(t, holder.Rollback())
	waiting.Wait()
}

// Each change is made of the row as the one before left it.
func TestChangesSideBySideAllCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.make(t, "ann")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				err := task.ErrRunning
				for errors.Is(err, task.ErrRunning) { // the row was locked for too long: nothing was changed
					_, err = w.Shift(t.Context(), made.ID, time.Second)
				}
				pipelinetest.Must(t, err)
			}
		})
	}
	all.Wait()
	if got := w.store.Row(made.ID); got.Version != 81 || got.DueAt.Sub(made.DueAt) != 80*time.Second {
		t.Errorf("version %d, moved by %v; want 81 and 80s", got.Version, got.DueAt.Sub(made.DueAt))
	}
}

// A statement that is its own transaction is also its own COMMIT.
func TestLostAnswerOfAChangeIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cut       func(p *pipelinetest.ToxicProxy)
		committed bool
	}{
		"answer lost":  {(*pipelinetest.ToxicProxy).CutDownstream, true},
		"request lost": {(*pipelinetest.ToxicProxy).CutUpstream, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newWorld(t)
			w, proxy := behindProxy(t, direct)
			together(50, func(int) { w.make(t, "ann") }) // the layout is known and all connections are open

			specs := make([]task.Spec, 10)
			for i := range specs {
				specs[i] = meal.New("ann", i, task.In(time.Hour))
			}
			test.cut(proxy)
			together(len(specs), func(i int) {
				_, err := w.Schedule(t.Context(), specs[i])
				wantIs(t, err, schedule.ErrCommitUnknown)
				if schedule.IsRetryable(err) {
					t.Error("a lost answer is called retryable")
				}
			})
			for _, spec := range specs {
				pipelinetest.Await(t, "compensation", func() bool { return w.compensated(spec.ID()) })
				if put := w.put(spec.ID()); len(put) != 0 {
					t.Errorf("versions %v were put though nobody knows whether they exist", put)
				}
			}
			committed := func() (n int) {
				for _, spec := range specs {
					if direct.exists(t, spec.ID()) {
						n++
					}
				}
				return n
			}
			if test.committed {
				pipelinetest.Await(t, "a commit", func() bool { return committed() > 0 })
			} else if n := committed(); n > 0 {
				t.Errorf("%d of %d were committed that were never sent", n, len(specs))
			}
		})
	}
}

// Callers that come together share statements; each gets its own answer all the same.
func TestManyCallersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const callers = 100
	taken := w.make(t, "bob")
	made := make([]task.Task, callers)
	together(callers, func(i int) {
		spec := meal.New("ann", i, task.In(time.Duration(i)*time.Second))
		switch {
		case i == callers/2:
			spec = meal.New("ann", i, task.In(time.Hour), task.WithID(taken.ID))
		case i%2 == 0:
			spec = meal.New("ann", i, task.At(time.Now().Add(time.Duration(i)*time.Minute)))
		}
		var err error
		made[i], err = w.Schedule(t.Context(), spec)
		pipelinetest.Must(t, err)
	})
	if d := cmp.Diff(taken, made[callers/2]); d != "" {
		t.Errorf("the task that had the id against the answer (-want +got):\n%s", d)
	}
	for _, m := range made {
		w.wantRow(t, "scheduled", m)
	}
	together(callers, func(i int) {
		var err error
		switch i % 3 {
		case 0:
			made[i], err = w.Shift(t.Context(), made[i].ID, time.Hour)
		case 1:
			made[i], err = w.Reschedule(t.Context(), made[i].ID, task.In(time.Hour))
		default:
			made[i], err = w.Cancel(t.Context(), made[i].ID)
		}
		pipelinetest.Must(t, err)
	})
	for _, m := range made {
		w.wantRow(t, "changed", m)
		if m.Version != 2 {
			t.Errorf("task %s has version %d, want 2", m.ID, m.Version)
		}
	}
	together(callers, func(i int) {
		if i%3 == 2 {
			_, err := w.Shift(t.Context(), made[i].ID, time.Hour)
			wantIs(t, err, task.ErrAlreadyCancelled)
		}
	})
}

// A row that is held all the while, as by a handler, is in nobody's way but of who changes it.
func TestHeldRowDelaysItsCallerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := make([]task.Task, 50)
	for i := range made {
		made[i] = w.make(t, "ann")
	}
	tx, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), tx, []task.ID{made[7].ID})
	pipelinetest.Must(t, err)
	together(len(made), func(i int) {
		_, err := w.Cancel(t.Context(), made[i].ID)
		if i == 7 {
			wantIs(t, err, task.ErrRunning)
			return
		}
		pipelinetest.Must(t, err)
	})
	pipelinetest.Must(t, tx.Rollback())
}

// together calls a function from so many goroutines at once.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}

// After Close of the client and its handle nothing is left open: nothing was sent.
func TestCallsAfterClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	w.Close(ctx)
	pipelinetest.Must(t, w.store.Close())
	for name, call := range map[string]func() error{
		"schedule": func() error { _, err := w.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour))); return err },
		"keyed": func() error {
			_, err := w.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour), task.Key("k")))
			return err
		},
		"reschedule": func() error { _, err := w.Reschedule(ctx, row.ID, task.In(time.Hour)); return err },
		"shift":      func() error { _, err := w.Shift(ctx, row.ID, time.Hour); return err },
		"cancel":     func() error { _, err := w.Cancel(ctx, row.ID); return err },
		"in tx":      func() error { return w.InTx(ctx, func(*schedule.Tx) error { return nil }) },
		"list":       func() error { _, _, err := w.TasksFromDB(ctx, "ann", ""); return err },
	} {
		err := call()
		if !errors.Is(err, task.ErrClosed) || errors.Is(err, schedule.ErrCommitUnknown) || schedule.IsRetryable(err) {
			t.Errorf("%s: %v, want ErrClosed, neither unknown nor retryable", name, err)
		}
	}
}
