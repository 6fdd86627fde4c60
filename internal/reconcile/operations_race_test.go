package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

var errDied = errors.New("the daemon died")

// death lets a daemon die after a number of its calls.
type death struct {
	mu     sync.Mutex
	calls  int // that are left
	spared bool
}

// after is called after each call.
func (d *death) after(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spared {
		return err
	}
	if d.calls--; d.calls <= 0 {
		return errDied
	}
	return err
}

// dyingStore and dyingIndex are those of a daemon that dies after a call of a page.
type dyingStore struct {
	hookStore
	*death
}

func (d dyingStore) Begin(ctx context.Context) (*sqlx.Tx, error) {
	tx, err := d.hookStore.Begin(ctx)
	if died := d.after(err); died != nil && err == nil {
		return nil, errors.Join(died, tx.Rollback())
	}
	return tx, err
}

func (d dyingStore) LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error) {
	o, found, err := d.hookStore.LockOperation(ctx, q, id)
	return o, found, d.after(err)
}

func (d dyingStore) NextIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
	ids []task.ID, next task.ID, over bool, err error,
) {
	ids, next, over, err = d.hookStore.NextIDs(ctx, q, o, scan, limit)
	return ids, next, over, d.after(err)
}

func (d dyingStore) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := d.hookStore.LockFree(ctx, q, ids)
	return rows, now, d.after(err)
}

func (d dyingStore) Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error {
	return d.after(d.hookStore.Write(ctx, q, changes))
}

func (d dyingStore) Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error {
	return d.after(d.hookStore.Record(ctx, q, events))
}

func (d dyingStore) SaveOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) error {
	return d.after(d.hookStore.SaveOperation(ctx, q, o))
}

type dyingIndex struct {
	hookIndex
	*death
}

func (d dyingIndex) Put(ctx context.Context, tasks []task.Task) error {
	return d.after(d.hookIndex.Put(ctx, tasks))
}

func (d dyingIndex) Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	seen, err := d.hookIndex.Standings(ctx, tasks)
	return seen, d.after(err)
}

func (d dyingIndex) Repair(ctx context.Context, repairs []protocol.Repair) (int, error) {
	n, err := d.hookIndex.Repair(ctx, repairs)
	return n, d.after(err)
}

// A shift is interrupted after each step of its pages, and run again. It moves each matching row once, and no other.
func TestInterruptedOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	d := &death{}
	w.store = bounded{dyingStore{hookStore{w.rows, w}, d}}
	w.index = dyingIndex{hookIndex{w.sets, w}, d}
	for steps := 1; ; steps++ {
		if steps > 40 {
			t.Fatal("the daemon dies after 40 steps still")
		}
		kind := fmt.Sprint("timer-", steps)
		rows := w.timers(t, kind, 30)
		o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: kind}, Rate: 7})
		d.calls, d.spared = steps, false
		_, err := (&operations{r: w.Reconciler}).pass(t.Context(), w.clock)
		died := err != nil
		if died && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		d.spared = true
		if got := w.operation(t, o.ID).Changed; got != 0 && got != 7 {
			t.Errorf("after %d steps %d rows are counted, want a page's or none", steps, got)
		}
		if done := w.finish(t, o.ID); done.Changed != 15 || done.Looked != 15 {
			t.Errorf("interrupted after %d steps: %+v, want 15 changed", steps, done)
		}
		w.now = value(t)(w.rows.Now(t.Context(), nil)).Add(2 * writerTime)
		w.run(t, new(changed).pass) // puts what a daemon that died had committed
		w.wantOperated(t, o, rows)
		if !died {
			return
		}
	}
}

// meetingStore calls after once LockOperation has returned.
type meetingStore struct {
	hookStore
	after func()
}

func (m meetingStore) LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error) {
	o, found, err := m.hookStore.LockOperation(ctx, q, id)
	m.after()
	return o, found, err
}

// Of two daemons that overlap each row is changed by one. They meet at each page: one has the operation's row, the other one asks
// for it. If the other one has the row too, it goes on with what it has read once the first one's page is done.
func TestOperationOfTwoDaemons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 40)
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: "timer"}, Rate: 5})
	daemon := func(after func()) *operations {
		r, err := New(w.cfg, meetingStore{hookStore{w.rows, w}, after}, w.sets, w.hints)
		pipelinetest.Must(t, err)
		return &operations{r: r}
	}
	for range 3 {
		read, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		second := daemon(func() {
			close(read)
			<-done
		})
		first := daemon(func() {
			go func() {
				_, err := second.pass(t.Context(), w.clock)
				ended <- err
			}()
			pipelinetest.Await(t, "the second daemon at the operation's row", func() bool {
				select {
				case <-read:
					return true
				default:
					return pipelinetest.LockWaits(t, w.rows.DB()) > 0
				}
			})
		})
		w.run(t, first.pass)
		close(done)
		pipelinetest.Must(t, <-ended)
	}
	if done := w.finish(t, o.ID); done.Changed != 20 || done.State != task.OperationDone {
		t.Errorf("done: %+v, want 20 changed", done)
	}
	w.wantOperated(t, o, rows)
}

// A row that another transaction has locked is waited for, without a lock on the others, and left alone at last.
func TestOperationMeetsLockedRows(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]time.Duration{"for a moment": operationWait / 4, "for long": 2 * operationWait} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			rows := w.timers(t, "timer", 20)
			o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "timer"}})
			holder, err := w.rows.Begin(t.Context())
			pipelinetest.Must(t, err)
			_, err = w.rows.Lock(t.Context(), holder, []task.ID{rows[6].ID})
			pipelinetest.Must(t, err)
			released := make(chan error, 1)
			time.AfterFunc(held, func() { released <- holder.Rollback() })
			began := time.Now()
			done := w.finish(t, o.ID)
			took := time.Since(began)
			pipelinetest.Must(t, <-released)
			left := int64(0)
			if held > operationWait {
				left = 1
			}
			if done.Changed != 10-left || done.Unchanged != left || done.Ended != 0 {
				t.Errorf("after %v: %+v, want %d left alone", took, done, left)
			}
			if took < min(held, operationWait) {
				t.Errorf("over after %v, want the row to be waited for", took)
			}
		})
	}
}

// A recurrence that a worker has locked while it runs the task before is waited for like a row, and its task is left alone at last.
func TestOperationMeetsLockedRecurrence(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"a page": false, "the last try of a page": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			rows := w.timers(t, "pet.meal_finished", 20)
			r, tick := w.recur(t, "ann")
			w.put(t, tick)
			o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "pet.meal_finished"}})
			holder, err := w.rows.Begin(t.Context())
			pipelinetest.Must(t, err)
			_, err = w.rows.LockRecurrences(t.Context(), holder, []task.ID{r.ID})
			pipelinetest.Must(t, err)
			scan, size, _ := pagesOf(0, false)
			p := &operationPage{r: w.Reconciler, scan: scan, size: size, last: last, newest: map[task.ID]bool{}}
			err = p.run(t.Context(), o.ID)
			switch done := w.operation(t, o.ID); {
			case !last && (!errors.Is(err, errLocked) || done.Looked != 0):
				t.Errorf("a page: %v, and the operation is %+v; want it to be tried again", err, done)
			case last && (err != nil || done.Changed != 10 || done.Unchanged != 1):
				t.Errorf("the last try: %v, and the operation is %+v; want 10 changed and 1 left alone", err, done)
			case last:
				pipelinetest.Must(t, w.follow(t.Context(), operationsReason, p.tx))
			}
			if got := w.as(t, []task.Task{tick})[0]; got.State != task.Pending {
				t.Errorf("the tick is %+v", got)
			}
			pipelinetest.Must(t, holder.Rollback())
			if done := w.finish(t, o.ID); done.Changed+done.Unchanged != 11 {
				t.Errorf("done: %+v, want 11 in all", done)
			}
			w.wantOperated(t, o, rows)
		})
	}
}

func (h hookStore) RunningOperations(ctx context.Context) ([]task.Operation, error) {
	defer h.w.called()
	return h.Store.RunningOperations(ctx)
}

func (h hookStore) NextIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
	[]task.ID, task.ID, bool, error,
) {
	defer h.w.called()
	return h.Store.NextIDs(ctx, q, o, scan, limit)
}

// An operation that is paused after the pass has read it changes nothing more.
func TestOperationIsPausedBeforeItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 4)
	o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "timer"}})
	w.between(func() { w.become(t, o.ID, task.OperationPaused) })
	w.run(t, (&operations{r: w.Reconciler}).pass)
	if got := w.operation(t, o.ID); got.State != task.OperationPaused || got.Changed != 0 {
		t.Errorf("it is %+v", got)
	}
	if d := cmp.Diff(rows, w.as(t, rows)); d != "" {
		t.Errorf("the rows (-want +got):\n%s", d)
	}
}

// An undo moves back the rows that a shift moved and that nothing has changed since, also not between the read of a page and
// its locks. An undo of the undo moves the same rows again.
func TestOperationIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 12) // six of the kind
	done := w.finish(t, w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: "timer"}}).ID)
	moved := w.as(t, rows)
	later := func() (now time.Time) {
		pipelinetest.Await(t, "the clock to go on", func() bool {
			now = value(t)(w.rows.Now(t.Context(), nil))
			return now.After(done.FinishedAt)
		})
		return now
	}
	change := func(i int, by func(task.Task, time.Time) (task.Task, error)) {
		changed, err := by(moved[i], later())
		pipelinetest.Must(t, err)
		moved[i] = w.save(t, changed)
		w.put(t, changed)
	}
	minute := func(one task.Task, now time.Time) (task.Task, error) { return transition.Shift(one, time.Minute, now) }
	change(0, minute)
	change(2, func(one task.Task, now time.Time) (task.Task, error) { return transition.Finish(one, now), nil })
	rows = append(rows, w.insert(t, w.timer(t, "ann", "timer", 3*time.Hour))...)
	moved = append(moved, rows[len(rows)-1])
	want := func(what string, o task.Operation, back map[int]time.Duration) {
		t.Helper()
		for i, row := range w.as(t, rows) {
			if by, undone := back[i]; undone && !row.DueAt.Equal(rows[i].DueAt.Add(by)) || !undone && !cmp.Equal(moved[i], row) {
				t.Errorf("%s: row %d is %+v, was %+v, and before the shift %+v", what, i, row, moved[i], rows[i])
			}
		}
		if o.Changed != int64(len(back)) || o.Ended+o.Unchanged != 0 {
			t.Errorf("%s: done is %+v", what, o)
		}
	}
	undo, err := transition.UndoOperation(done)
	pipelinetest.Must(t, err)
	undo = w.operate(t, undo)
	w.between(func() {
		w.between(func() { change(4, minute) }) // after NextIDs
	})
	undo = w.finish(t, undo.ID)
	want("undone", undo, map[int]time.Duration{6: 0, 8: 0, 10: 0})
	done = undo
	later()
	redo, err := transition.UndoOperation(undo)
	pipelinetest.Must(t, err)
	want("undone twice", w.finish(t, w.operate(t, redo).ID), map[int]time.Duration{6: 2 * time.Hour, 8: 2 * time.Hour, 10: 2 * time.Hour})
}

// Rows that end, or no longer match, between the read of a page and its locks are not changed. SQLite has one writer.
func TestOperationComparesUnderLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 8)
	soon := rows[7].DueAt.Add(time.Minute)
	filter := task.Filter{Kind: "timer", DueBefore: soon}
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: filter})
	w.between(func() {
		w.between(func() { // after NextIDs
			rows[0] = w.save(t, transition.Finish(rows[0], w.now))
			moved, err := transition.Move(rows[2], soon, w.now)
			pipelinetest.Must(t, err)
			rows[2] = w.save(t, moved)
			w.put(t, rows[0], rows[2])
		})
	})
	if done := w.finish(t, o.ID); done.Changed != 2 || done.Ended != 1 || done.Looked != 4 {
		t.Errorf("done: %+v, want 2 changed and 1 ended of 4", done)
	}
	w.wantOperated(t, o, rows)
}
