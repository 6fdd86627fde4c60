package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// reads is a client whose transactions run the mux's handlers.
func (w *world) reads(mux *worker.Mux, cfg engine.Config) *schedule.Client {
	w.t.Helper()
	r, err := engine.NewReader(patient(cfg), mux, w.store)
	pipelinetest.Must(w.t, err)
	c, err := schedule.New(schedule.Config{Settler: r}, w.store, w.index, worldtest.Nowhere{})
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { c.Close(context.Background()); r.Close() })
	return c
}

func (w *world) fresh(c *schedule.Client, owner string) schedule.Settled {
	w.t.Helper()
	var got schedule.Settled
	pipelinetest.Must(w.t, c.Fresh(w.t.Context(), owner, func(_ *schedule.Tx, settled schedule.Settled) error {
		got = settled
		return nil
	}))
	return got
}

func TestReaderSettlesInOrder(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind := task.NewKind[payload]("march")
		var order []string
		mux := worker.NewMux()
		worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			order = append(order, m.Payload.Word)
			if m.Payload.Word == "first" { // a follow-up that comes before the second
				_, err := tx.Schedule(ctx, kind.New("ann", payload{"follow-up"}, task.At(m.DueAt.Add(time.Second))))
				return err
			}
			return effect(ctx, tx, m)
		})
		c := w.reads(mux, engine.Config{})
		made := w.schedule(
			kind.New("ann", payload{"second"}, task.In(0)), kind.New("ann", payload{"first"}, task.In(0)),
			kind.New("ann", payload{"later"}, task.In(time.Hour)), kind.New("bob", payload{"other"}, task.In(0)),
		)
		w.ago(made[0].ID, 50*time.Second)
		w.ago(made[1].ID, time.Minute)
		if got := w.fresh(c, "ann"); got.Done != 3 || !got.Whole() {
			t.Errorf("settled %+v, want 3 done", got)
		}
		if want := []string{"first", "follow-up", "second"}; !slices.Equal(order, want) {
			t.Errorf("ran %v, want %v", order, want)
		}
		for i, want := range []task.State{task.Done, task.Done, task.Pending, task.Pending} {
			if row := w.store.Row(made[i].ID); row.State != want {
				t.Errorf("task %d is %v, want %v", i, row.State, want)
			}
		}
		if got := w.fresh(c, "ann"); got.Done != 0 || !got.Whole() {
			t.Errorf("once more: %+v, want nothing", got)
		}
		if n := w.effects(made[0].ID); n != 1 {
			t.Errorf("%d effects, want one", n)
		}
	})
}

// ago makes a task due so long ago.
func (w *world) ago(id task.ID, d time.Duration) {
	w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - ?, run_at = due_at WHERE id = ?", d.Milliseconds(), id[:])
	w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE id = ?", id[:]) // SQLite reads the due time of before
}

// A task that its handler moves runs for each of its times that has come.
func TestReaderCatchesUp(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind := task.NewKind[payload]("refill")
		mux := worker.NewMux()
		worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if now, err := tx.Now(ctx); err != nil || !now.Equal(m.DueAt) {
				t.Errorf("now is %v, %v; want the task's own time %v", now, err, m.DueAt)
			}
			if err := effect(ctx, tx, m); err != nil {
				return err
			}
			_, err := tx.Reschedule(ctx, m.ID, task.In(10*time.Minute))
			return err
		})
		c := w.reads(mux, engine.Config{})
		row := w.due(kind, 1)[0]
		w.ago(row.ID, 55*time.Minute)
		if got := w.fresh(c, row.Owner); got.Done != 6 || !got.Whole() {
			t.Errorf("settled %+v, want 6 refills", got)
		}
		want(t, "effects", w.effects(row.ID), 6)
		if next := w.store.Row(row.ID); next.State != task.Pending || next.DueAt.Sub(row.DueAt) != 5*time.Minute || next.UpdatedAt.Before(row.UpdatedAt) {
			t.Errorf("then it is %+v, want it due 5 minutes after %v", next, row.DueAt)
		}
	})
}

// A caller that rolls back has settled nothing, and nobody hears of it.
func TestReaderThatRollsBack(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind := task.NewKind[payload]("march")
		mux := worker.NewMux()
		worker.Handle(mux, kind, effect)
		c := w.reads(mux, engine.Config{Metrics: w.reg})
		row := w.due(kind, 1)[0]
		stop := errors.New("stop")
		err := c.Fresh(t.Context(), row.Owner, func(_ *schedule.Tx, settled schedule.Settled) error {
			if settled.Done != 1 {
				t.Errorf("settled %+v, want one", settled)
			}
			return stop
		})
		if !errors.Is(err, stop) || w.effects(row.ID) != 0 || w.store.Row(row.ID).State != task.Pending {
			t.Errorf("%v, and %d effects of a task that is %v", err, w.effects(row.ID), w.store.Row(row.ID).State)
		}
		if n := worldtest.Sum(t, w.reg, "duetime_tasks_settled_total", "result", "read"); n != 0 {
			t.Errorf("%v counted", n)
		}
		w.passAll(w.worker(mux, engine.Config{}), row)
		if n := w.effects(row.ID); n != 1 {
			t.Errorf("%d effects after a worker's pass, want one", n)
		}
	})
}

// A handler that fails leaves nothing behind, is not charged, and keeps no other task.
func TestReaderMeetsAFailure(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind := task.NewKind[payload]("march")
		mux := worker.NewMux()
		broken := errors.New("broken")
		worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if err := effect(ctx, tx, m); err != nil || m.Payload.Word != "bad" {
				return err
			}
			if _, err := tx.Schedule(ctx, kind.New("ann", payload{"of the bad one"}, task.In(0))); err != nil {
				return err
			}
			return broken
		})
		c := w.reads(mux, engine.Config{})
		made := w.schedule(
			kind.New("ann", payload{"bad"}, task.In(0)), kind.New("ann", payload{"good"}, task.In(0)),
		)
		w.ago(made[0].ID, time.Minute)
		got := w.fresh(c, "ann")
		if got.Done != 1 || len(got.Failed) != 1 || !errors.Is(got.Failed[made[0].ID], broken) || got.Whole() {
			t.Errorf("settled %+v", got)
		}
		bad, good := w.store.Row(made[0].ID), w.store.Row(made[1].ID)
		if bad.State != task.Pending || bad.Attempt != 0 || bad.Version != 1 || w.effects(bad.ID) != 0 {
			t.Errorf("the bad one is %+v, with %d effects", bad, w.effects(bad.ID))
		}
		if good.State != task.Done || w.effects(good.ID) != 1 {
			t.Errorf("the good one is %+v", good)
		}
		if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 2 {
			t.Errorf("%d tasks, want 2", n)
		}
	})
}

// A handler may cancel or move a task that is due, and would have been skipped in its turn.
func TestReaderMeetsAChangedVerdict(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind, offer := task.NewKind[payload]("march"), task.NewKind[payload]("offer", task.CatchUpWindow(time.Minute))
		for name, change := range map[string]func(ctx context.Context, tx *worker.Tx, id task.ID) (task.Task, error){
			"cancelled": func(ctx context.Context, tx *worker.Tx, id task.ID) (task.Task, error) { return tx.Cancel(ctx, id) },
			"moved": func(ctx context.Context, tx *worker.Tx, id task.ID) (task.Task, error) {
				return tx.Reschedule(ctx, id, task.In(2*time.Hour))
			},
		} {
			var late, changed task.Task
			mux := worker.NewMux()
			worker.Handle(mux, offer, effect)
			worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) (err error) {
				changed, err = change(ctx, tx, late.ID)
				return err
			})
			made := w.schedule(kind.New(name, payload{}, task.In(0)), offer.New(name, payload{}, task.In(0)))
			late = made[1]
			w.ago(made[0].ID, time.Hour)
			w.ago(late.ID, time.Minute*30)
			if got := w.fresh(w.reads(mux, engine.Config{}), name); got.Done != 1 || !got.Whole() {
				t.Errorf("%s: settled %+v, want one done", name, got)
			}
			if row := w.store.Row(late.ID); row.State != changed.State || row.Version != 2 || !row.RunAt.Equal(changed.RunAt) {
				t.Errorf("%s: the late one is %+v, want it as its handler left it", name, row)
			}
		}
	})
}

// What a rollback would not undo, and what an operator or a limit holds back, is a worker's.
func TestReaderLeavesToAWorker(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		outside, held, unknown := task.NewKind[payload]("mail"), task.NewKind[payload]("held", task.Queue("held")), task.NewKind[payload]("unknown")
		limited, slowed := task.NewKind[payload]("limited", task.Queue("limited")), task.NewKind[payload]("slowed", task.Queue("slowed"))
		mux := worker.NewMux()
		worker.HandleOutside(mux, outside, func(context.Context, worker.Task[payload]) error {
			t.Error("an outside handler ran")
			return nil
		})
		for _, kind := range []task.Kind[payload]{held, limited, slowed} {
			worker.Handle(mux, kind, effect)
		}
		_, err := w.store.Pause(t.Context(), w.store.DB(), "held", time.Now(), time.Time{})
		pipelinetest.Must(t, err)
		rate, err := task.ParseRate("5/s")
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, w.store.SetRate(t.Context(), w.store.DB(), "slowed", &rate))
		c := w.reads(mux, engine.Config{Limits: map[string]task.Limit{"limited": {Concurrency: 1}}})
		var specs []task.Spec
		for _, kind := range []task.Kind[payload]{outside, held, limited, slowed, unknown} {
			specs = append(specs, kind.New("ann", payload{kind.Name()}, task.In(0)))
		}
		made := w.schedule(specs...)
		if got := w.fresh(c, "ann"); got.Done != 0 || got.Left != len(specs) || got.Whole() {
			t.Errorf("settled %+v, want %d left", got, len(specs))
		}
		for _, row := range made {
			if now := w.store.Row(row.ID); now.State != task.Pending || now.Version != 1 {
				t.Errorf("%s is %+v", row.Kind, now)
			}
		}
		w.store.Exec("UPDATE duetime_tasks SET run_at = run_at + 60000, version = version + 1 WHERE kind <> 'mail'") // as a worker puts off
		if got := w.fresh(c, "ann"); got.Done != 0 || got.Left != len(specs) || got.Whole() {
			t.Errorf("settled %+v, want %d left, of which workers have put some off", got, len(specs))
		}
	})
}

// What a handler has ended, which a worker had put off, is not left.
func TestReaderCountsAfterItsHandlers(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind, mux := task.NewKind[payload]("march"), worker.NewMux()
		made := w.schedule(kind.New("ann", payload{}, task.In(0)), kind.New("ann", payload{}, task.In(0)))
		worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
			_, err := tx.Cancel(ctx, made[1].ID)
			return err
		})
		w.store.Exec("UPDATE duetime_tasks SET run_at = run_at + 60000, version = version + 1 WHERE id = ?", made[1].ID[:])
		if got := w.fresh(w.reads(mux, engine.Config{}), "ann"); got.Done != 1 || !got.Whole() {
			t.Errorf("settled %+v, want one done and nothing left", got)
		}
	})
}

// A caller waits for what a worker runs at this moment, and then reads its effect.
func TestReaderWaitsForAWorker(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: limit}))
	kind := task.NewKind[payload]("march")
	begun, goOn := make(chan struct{}), make(chan struct{})
	mux, readers := worker.NewMux(), worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
		close(begun)
		<-goOn
		return effect(ctx, tx, m)
	})
	worker.Handle(readers, kind, func(context.Context, *worker.Tx, worker.Task[payload]) error {
		t.Error("ran twice")
		return nil
	})
	row := w.due(kind, 1)[0]
	wk, passed := w.worker(mux, engine.Config{}), make(chan struct{})
	go func() {
		defer close(passed)
		w.pass(wk, row)
	}()
	<-begun
	c := w.reads(readers, engine.Config{})
	read := make(chan int, 1)
	go func() {
		var n int
		err := c.InTx(t.Context(), func(tx *schedule.Tx) error {
			settled, err := tx.SettleDue(t.Context(), row.Owner)
			if err == nil && settled.Done != 0 {
				err = fmt.Errorf("settled %+v", settled)
			}
			if err != nil {
				return err
			}
			return tx.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM effects WHERE task_id = ?", row.ID.String())
		})
		if err != nil {
			t.Error(err)
		}
		read <- n
	}()
	pipelinetest.Await(t, "the reader waits", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
	close(goOn)
	<-passed
	if n := <-read; n != 1 {
		t.Errorf("read %d effects, want the worker's", n)
	}
}

// A tick that takes effect for a reader is followed like any other.
func TestReaderMakesTheNextTick(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind := task.NewKind[payload]("refill")
		mux := worker.NewMux()
		worker.Handle(mux, kind, effect)
		c := w.reads(mux, engine.Config{})
		made, ticks := w.recur(kind, recur.Policy{}, 1)
		if got := w.fresh(c, made[0].Owner); got.Done != 1 || !got.Whole() {
			t.Errorf("settled %+v, want the tick", got)
		}
		want(t, "effects", w.effects(ticks[0].ID), 1)
		next := w.store.Row(w.recurrence(made[0].ID).Newest)
		_, tick, _ := next.Tick()
		want(t, "next tick", tick, made[0].DueAt.Add(7*24*time.Hour))
		want(t, "its state", next.State, task.Pending)
	})
}

// A player pays to finish at once.
func TestRunNow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind, outside := task.NewKind[payload]("build"), task.NewKind[payload]("mail")
		mux := worker.NewMux()
		worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, b worker.Task[payload]) error {
			if b.Payload.Word == "bad" {
				return errSick
			}
			return effect(ctx, tx, b)
		})
		worker.HandleOutside(mux, outside, func(context.Context, worker.Task[payload]) error { return nil })
		c := w.reads(mux, engine.Config{})
		run := func(id task.ID) (ran task.Task, err error) {
			err = c.InTx(t.Context(), func(tx *schedule.Tx) error {
				ran, err = tx.RunNow(t.Context(), id)
				return err
			})
			return ran, err
		}
		made := w.schedule(
			kind.New("ann", payload{"good"}, task.In(time.Hour)), kind.New("ann", payload{"bad"}, task.In(time.Hour)),
			outside.New("ann", payload{}, task.In(time.Hour)),
		)
		ran, err := run(made[0].ID)
		if err != nil || ran.State != task.Done || w.effects(ran.ID) != 1 || !ran.DueAt.Before(made[0].DueAt) {
			t.Errorf("ran %+v, %v", ran, err)
		}
		if row := w.store.Row(ran.ID); row.State != task.Done || row.Version != 2 || !row.DueAt.Equal(ran.DueAt) {
			t.Errorf("the row is %+v", row)
		}
		for id, want := range map[task.ID]error{
			made[0].ID: task.ErrAlreadyDone, made[1].ID: errSick, made[2].ID: schedule.ErrNotHere, task.NewID(): task.ErrNotFound,
		} {
			if _, err := run(id); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		for _, row := range made[1:] {
			if now := w.store.Row(row.ID); now.State != task.Pending || now.Version != 1 || !now.DueAt.Equal(row.DueAt) {
				t.Errorf("%s is %+v", row.Kind, now)
			}
		}
	})
}

// What is too late to be caught up with runs for a player who pays, and nothing of a blocked owner does.
func TestRunNowOfWhatNoWorkerRuns(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		offer, mux := task.NewKind[payload]("offer", task.CatchUpWindow(time.Minute)), worker.NewMux()
		worker.Handle(mux, offer, effect)
		c := w.reads(mux, engine.Config{})
		made := w.schedule(offer.New("ann", payload{}, task.In(0)), offer.New("ned", payload{}, task.In(0)))
		w.ago(made[0].ID, time.Hour)
		w.store.Exec("INSERT INTO duetime_blocks (owner, at, actor) VALUES ('ned', 1, 'ann@host')")
		for i, wanted := range []struct {
			err   error
			state task.State
		}{{nil, task.Done}, {task.ErrOwnerBlocked, task.Pending}} {
			err := c.InTx(t.Context(), func(tx *schedule.Tx) error {
				_, err := tx.RunNow(t.Context(), made[i].ID)
				return err
			})
			if state := w.store.Row(made[i].ID).State; !errors.Is(err, wanted.err) || state != wanted.state {
				t.Errorf("%s's: %v, and it is %v; want %v and %v", made[i].Owner, err, state, wanted.err, wanted.state)
			}
		}
		want(t, "effects", w.effects(made[0].ID), 1)
	})
}

// A handler that ignores its time keeps neither the caller nor the task's row.
func TestReaderLeavesAHandlerBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind := task.NewKind[payload]("march")
	goOn := make(chan struct{})
	defer close(goOn)
	readers, mux := worker.NewMux(), worker.NewMux()
	worker.Handle(readers, kind, func(context.Context, *worker.Tx, worker.Task[payload]) error {
		<-goOn
		return nil
	})
	worker.Handle(mux, kind, effect)
	row := w.due(kind, 1)[0]
	err := w.reads(readers, engine.Config{HandlerTimeout: 100 * time.Millisecond}).Fresh(t.Context(), row.Owner,
		func(*schedule.Tx, schedule.Settled) error { return nil })
	if err == nil {
		t.Error("no error")
	}
	wk := w.worker(mux, engine.Config{})
	pipelinetest.Await(t, "the reader's transaction ends, and a worker runs the task", func() bool {
		w.passAll(wk, row)
		return w.effects(row.ID) == 1
	})
}

// A hook that never returns keeps nobody from closing a client.
func TestReaderClosesInSpiteOfAHook(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		kind, release, called := task.NewKind[payload]("march"), make(chan struct{}), make(chan struct{})
		defer close(release)
		mux := worker.NewMux()
		worker.Handle(mux, kind, effect)
		mux.OnEvent(func(context.Context, worker.Event) { close(called); <-release })
		r, err := engine.NewReader(patient(engine.Config{}), mux, w.store)
		pipelinetest.Must(t, err)
		c, err := schedule.New(schedule.Config{Settler: r}, w.store, w.index, worldtest.Nowhere{})
		pipelinetest.Must(t, err)
		w.schedule(kind.New("ann", payload{"first"}, task.In(0)))
		if got := w.fresh(c, "ann"); got.Done != 1 {
			t.Fatalf("settled %+v, want one done", got)
		}
		<-called
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			c.Close(context.Background())
			r.Close()
		}()
		pipelinetest.Await(t, "the reader to be closed", func() bool {
			select {
			case <-closed:
				return true
			default:
				return false
			}
		})
	})
}
