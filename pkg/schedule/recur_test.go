package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var weekly = recur.Every(7 * 24 * time.Hour)

func (w *world) recur(t testing.TB, name string, when recur.Timetable, payload int, policy recur.Policy) task.Recurrence {
	t.Helper()
	r, err := w.Recur(t.Context(), name, when, meal.Recurring("ann", payload), policy)
	pipelinetest.Must(t, err)
	return r
}

// In a rollout, processes of the version before start too, and bring their definition.
func TestRecurOfAnOlderRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	revision := func(n int) recur.Policy { return recur.Policy{Revision: n} }
	r := w.recur(t, "breakfast", weekly, 2, revision(2))
	for n := range 2 {
		stands := w.recur(t, "breakfast", recur.Every(time.Hour), n, revision(n))
		want(t, "the task after an older definition", stands.Newest, r.Newest)
		want(t, "the timetable after it", stands.Timetable, weekly)
	}
	w.wantPending(t, r)
	again := w.recur(t, "breakfast", weekly, 3, revision(2))
	want(t, "payload after another definition of the same revision", string(again.Payload), "3")
	next := w.recur(t, "breakfast", weekly, 3, revision(3))
	want(t, "revision after a newer one", next.Policy.Revision, 3)
	w.wantPending(t, next)

	_, err := w.StopRecurrence(ctx, "ann", "breakfast")
	pipelinetest.Must(t, err)
	want(t, "state of a stopped one after an older definition", w.recur(t, "breakfast", weekly, 2, revision(2)).State, task.RecurrenceStopped)
	want(t, "state after the same revision", w.recur(t, "breakfast", weekly, 2, revision(3)).State, task.RecurrenceActive)
}

// An older definition that was read before a newer one is committed waits for it, and changes nothing.
func TestRecurBesideANewerRevision(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{true, false} { // a paused one has no other task that tells of the newer one
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			t.Parallel()
			w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: time.Minute}))
			ctx := t.Context()
			w.recur(t, "breakfast", weekly, 1, recur.Policy{})
			if paused {
				_, err := w.PauseRecurrence(ctx, "ann", "breakfast", "")
				pipelinetest.Must(t, err)
			}
			older := make(chan task.Recurrence, 1)
			pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
				_, err := tx.Recur(ctx, "breakfast", weekly, meal.Recurring("ann", 2), recur.Policy{Revision: 1})
				if err != nil {
					return err
				}
				go func() {
					r, err := w.Recur(context.WithoutCancel(ctx), "breakfast", recur.Every(time.Hour), meal.Recurring("ann", 1), recur.Policy{})
					if err != nil {
						t.Error(err)
					}
					older <- r
				}()
				pipelinetest.Await(t, "the older definition to wait", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
				return nil
			}))
			r := <-older
			want(t, "payload", string(r.Payload), "2")
			if !paused {
				w.wantPending(t, r)
			}
		})
	}
}

// pending returns the owner's pending tasks, as rows.
func (w *world) pending(t testing.TB, owner string) []task.Task {
	t.Helper()
	rows, err := w.store.ListOwner(t.Context(), nil, owner, "")
	pipelinetest.Must(t, err)
	return rows
}

// wantPending is the recurrence's one pending task.
func (w *world) wantPending(t testing.TB, r task.Recurrence) task.Task {
	t.Helper()
	rows := w.pending(t, r.Owner)
	if len(rows) != 1 || rows[0].ID != r.Newest || !rows[0].DueAt.Equal(r.DueAt) {
		t.Fatalf("pending are %v, want task %s due at %v", rows, r.Newest, r.DueAt)
	}
	return rows[0]
}

func TestRecur(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	first := w.wantPending(t, r)
	if v := w.put(first.ID); len(v) != 1 {
		t.Errorf("the task was put %d times", len(v))
	}
	if same := w.recur(t, "breakfast", weekly, 1, recur.Policy{}); same.Newest != r.Newest || same.ID != r.ID {
		t.Errorf("the same definition: %+v, want %+v", same, r)
	}
	changed := w.recur(t, "breakfast", recur.Every(14*24*time.Hour), 2, recur.Policy{CatchUp: recur.CatchUpSkip})
	second := w.wantPending(t, changed)
	if changed.ID != r.ID || second.ID == first.ID || string(second.Payload) != "2" {
		t.Errorf("another definition: %+v with the task %+v", changed, second)
	}
	if row := w.store.Row(first.ID); row.State != task.Cancelled {
		t.Errorf("the replaced task is %v", row.State)
	}
	back := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	if third := w.wantPending(t, back); !third.DueAt.Equal(first.DueAt) {
		t.Errorf("due at %v, want the tick that was taken back, at %v", third.DueAt, first.DueAt)
	}
	read, err := w.Recurrence(t.Context(), "ann", "breakfast")
	pipelinetest.Must(t, err)
	if read.Timetable != weekly || read.Newest != back.Newest || !read.Passed.Equal(back.Passed) || read.Made != 1 {
		t.Errorf("reads back as %+v, want %+v", read, back)
	}
}

func TestRecurRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for want, when := range map[string]recur.Timetable{
		"timetable must have a tick to come": recur.Cron("0 0 30 2 *", "UTC"),
		"minute must be of 0 to 59":          recur.Cron("60 0 1 1 *", "UTC"),
	} {
		_, err := w.Recur(t.Context(), "never", when, meal.Recurring("ann", 1), recur.Policy{})
		var field *task.FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_recurrences"); n != 0 || len(w.pending(t, "ann")) != 0 {
		t.Errorf("%d recurrences were written", n)
	}
	_, err := w.PauseRecurrence(t.Context(), "ann", "none", "")
	wantIs(t, err, task.ErrNoRecurrence)
}

// A cancelled tick is followed by the next one, in the same transaction.
func TestCancelledTickIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, cancel := range map[string]func(id task.ID) error{
		"by a call": func(id task.ID) error { _, err := w.Cancel(t.Context(), id); return err },
		"with the owner's": func(task.ID) error {
			n, err := w.CancelOwner(t.Context(), "ann", "")
			return errors.Join(err, wantOne(n))
		},
		"in a transaction": func(id task.ID) error {
			return w.InTx(t.Context(), func(tx *schedule.Tx) error { _, err := tx.Cancel(t.Context(), id); return err })
		},
	} {
		r := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
		pipelinetest.Must(t, cancel(r.Newest))
		after, err := w.Recurrence(t.Context(), "ann", "breakfast")
		pipelinetest.Must(t, err)
		next := w.wantPending(t, after)
		if id, tick, ok := next.Tick(); !ok || id != r.ID || !tick.Equal(r.DueAt.Add(7*24*time.Hour)) {
			t.Errorf("%s: followed by the tick of %v", name, tick)
		}
		if v := w.put(next.ID); len(v) != 1 {
			t.Errorf("%s: the next task was put %d times", name, len(v))
		}
	}
}

// Cancelled by many callers at once, as a busy service does, whose calls share transactions.
func TestTicksCancelledTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, overlap := range []recur.Overlap{recur.OverlapSkip, recur.OverlapBufferOne, recur.OverlapAllow} {
		const n = 40
		var made [n]task.Recurrence
		for i := range made {
			made[i] = w.recur(t, fmt.Sprint(overlap, i), weekly, 1, recur.Policy{Overlap: overlap})
		}
		together(n, func(i int) {
			if _, err := w.Cancel(t.Context(), made[i].Newest); err != nil {
				t.Error(err)
			}
		})
		for _, was := range made {
			r, err := w.Recurrence(t.Context(), "ann", was.Name)
			pipelinetest.Must(t, err)
			if r.State != task.RecurrenceActive || !r.DueAt.Equal(was.DueAt.Add(7*24*time.Hour)) || r.UpdatedAt.Before(was.UpdatedAt) {
				t.Fatalf("overlap %v: after the cancel it is %+v", overlap, r)
			}
			next, err := w.Get(t.Context(), r.Newest)
			pipelinetest.Must(t, err)
			if next.State != task.Pending {
				t.Errorf("overlap %v: the next task is %v", overlap, next.State)
			}
		}
	}
}

// A tick that was cancelled, or moved ahead and done, is not made once more by what withdraws the tick after it, even after a purge.
func TestPurgedTickIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cancel := func(r task.Recurrence) {
		_, err := w.Cancel(t.Context(), r.Newest)
		pipelinetest.Must(t, err)
	}
	for name, c := range map[string]struct {
		end   func(r task.Recurrence)
		renew func()
	}{
		"another definition": {cancel, func() { w.recur(t, "another definition", weekly, 2, recur.Policy{}) }},
		"a pause": {cancel, func() {
			_, err := w.PauseRecurrence(t.Context(), "ann", "a pause", "")
			pipelinetest.Must(t, err)
			_, err = w.ResumeRecurrence(t.Context(), "ann", "a pause")
			pipelinetest.Must(t, err)
		}},
		"moved ahead and done": {
			func(r task.Recurrence) { w.runEarly(t, r.Newest) },
			func() { w.recur(t, "moved ahead and done", weekly, 2, recur.Policy{}) },
		},
	} {
		r := w.recur(t, name, weekly, 1, recur.Policy{})
		c.end(r)
		_, _, _, err := w.store.Purge(t.Context(), protocol.Purgeable{}, w.now(t).Add(time.Millisecond), 100)
		pipelinetest.Must(t, err)
		c.renew()
		after, err := w.Recurrence(t.Context(), "ann", name)
		pipelinetest.Must(t, err)
		if _, tick, _ := w.store.Row(after.Newest).Tick(); !tick.After(r.DueAt) {
			t.Errorf("%s: the next tick is %v, want one after %v", name, tick, r.DueAt)
		}
	}
}

func (w *world) now(t testing.TB) time.Time {
	t.Helper()
	now, err := w.store.Now(t.Context(), nil)
	pipelinetest.Must(t, err)
	return now
}

// runEarly moves a tick's task to now, and does what a worker does at its end.
func (w *world) runEarly(t testing.TB, id task.ID) {
	t.Helper()
	row, err := w.Shift(t.Context(), id, -8*24*time.Hour)
	pipelinetest.Must(t, err)
	now := w.now(t)
	tx, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	pipelinetest.Must(t, worldtest.Finish(t.Context(), w.store.Store, tx, []task.Task{row}, now))
	var p recurrence.Progress
	p.Ended(row, now)
	pipelinetest.Must(t, p.Write(t.Context(), tx, w.store, now))
	pipelinetest.Must(t, tx.Commit())
}

// A task that was moved to a later time is replaced by another definition, though the time with which it was made has come. One
// that was moved to now stays.
func TestRecurAfterAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	_, err := w.Shift(t.Context(), r.Newest, 48*time.Hour)
	pipelinetest.Must(t, err)
	w.store.Exec("UPDATE duetime_recurrences SET due_at = ?", w.now(t).Add(-time.Minute).UnixMilli())
	changed := w.recur(t, "breakfast", weekly, 2, recur.Policy{})
	if next := w.wantPending(t, changed); string(next.Payload) != "2" {
		t.Errorf("moved away: the pending task is %+v, want one of the new definition", next)
	}
	_, err = w.Reschedule(t.Context(), changed.Newest, task.In(0))
	pipelinetest.Must(t, err)
	stays := w.recur(t, "breakfast", weekly, 3, recur.Policy{})
	if rows := w.pending(t, "ann"); len(rows) != 1 || rows[0].ID != changed.Newest || stays.Newest != changed.Newest {
		t.Errorf("moved to now: pending are %+v, want task %s alone", rows, changed.Newest)
	}
}

// tickPasses moves the tick of a recurrence's task, though not the task, to a minute ago: it waits for its jitter, or was put off.
func (w *world) tickPasses(t testing.TB, r task.Recurrence) (tick time.Time) {
	t.Helper()
	tick = w.now(t).Add(-time.Minute)
	key, _, _ := strings.Cut(w.store.Row(r.Newest).DedupKey, ":")
	w.store.Exec("UPDATE duetime_tasks SET dedup_key = ? WHERE id = ?", fmt.Sprint(key, ":", tick.UnixMilli()), r.Newest[:])
	w.store.Exec("UPDATE duetime_recurrences SET passed = ? WHERE id = ?", tick.UnixMilli(), r.ID[:])
	return tick
}

// A tick that has passed while its task waits is made once more by what takes the task back: the day's run is not lost.
func TestTickThatPassedSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	daily := recur.Every(24 * time.Hour).From(w.now(t).Add(12 * time.Hour)) // far from now
	for name, c := range map[string]struct {
		when   recur.Timetable
		policy recur.Policy
	}{
		"another payload":      {daily, recur.Policy{}},
		"none caught up with":  {daily, recur.Policy{CatchUp: recur.CatchUpSkip}},
		"another time of day":  {daily.From(w.now(t).Add(13 * time.Hour)), recur.Policy{}},
		"no more than one run": {daily, recur.Policy{Count: 1}},
	} {
		r := w.recur(t, name, daily, 1, recur.Policy{})
		tick := w.tickPasses(t, r)
		changed := w.recur(t, name, c.when, 2, c.policy)
		next := w.store.Row(changed.Newest)
		if _, got, _ := next.Tick(); !got.Equal(tick) || !next.DueAt.Equal(r.DueAt) || string(next.Payload) != "2" || changed.Made != 1 {
			t.Errorf("%s: got %+v for the tick of %v, want that of %v, due as before, of the new definition", name, next, got, tick)
		}
		w.runEarly(t, changed.Newest)
		after, _, err := w.store.Recurrence(t.Context(), w.store.DB(), "ann", name)
		pipelinetest.Must(t, err)
		if over := c.policy.Count == 1; over != (after.State == task.RecurrenceOver) || !over && !after.DueAt.Equal(c.when.Next(w.now(t))) {
			t.Errorf("%s: it is followed by %+v", name, after)
		}
	}
	r := w.recur(t, "begins later", daily, 1, recur.Policy{})
	tick := w.tickPasses(t, r)
	changed := w.recur(t, "begins later", daily, 2, recur.Policy{Start: tick.Add(48 * time.Hour)})
	if _, got, _ := w.store.Row(changed.Newest).Tick(); got.Before(tick.Add(48 * time.Hour)) {
		t.Errorf("the next tick is of %v, before the start", got)
	}
}

// An owner's recurrences that fill pages lose one tick each: the call does not go on with the ticks that it makes.
func TestCancelOwnerLeavesTheTicksItMakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		for i := range task.MaxPerCall {
			if _, err := tx.Recur(ctx, fmt.Sprint("meal ", i), weekly, meal.Recurring("ann", i), recur.Policy{}); err != nil {
				return err
			}
		}
		return nil
	}))
	before, err := w.Recurrences(ctx, "ann")
	pipelinetest.Must(t, err)
	n, err := w.CancelOwner(ctx, "ann", "")
	if n != task.MaxPerCall || err != nil {
		t.Fatalf("%d tasks were cancelled, %v; want %d", n, err, task.MaxPerCall)
	}
	pending := map[task.ID]task.Task{}
	for _, row := range w.pending(t, "ann") {
		pending[row.ID] = row
	}
	if len(pending) != len(before) {
		t.Errorf("%d tasks are pending, want one of each of %d recurrences", len(pending), len(before))
	}
	after, err := w.Recurrences(ctx, "ann")
	pipelinetest.Must(t, err)
	for i, r := range after {
		if next := before[i].DueAt.Add(7 * 24 * time.Hour); !pending[r.Newest].DueAt.Equal(next) {
			t.Fatalf("%s: the pending tick is of %v, want the next one, of %v", r.Name, pending[r.Newest].DueAt, next)
		}
	}
}

func wantOne(n int) error {
	if n != 1 {
		return fmt.Errorf("%d tasks were cancelled, want 1", n)
	}
	return nil
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	paused, err := w.PauseRecurrence(t.Context(), "ann", "breakfast", "sick")
	pipelinetest.Must(t, err)
	if paused.State != task.RecurrencePaused || paused.Note != "sick" || len(w.pending(t, "ann")) != 0 {
		t.Errorf("paused: %+v, %d pending", paused, len(w.pending(t, "ann")))
	}
	if kept := w.recur(t, "breakfast", weekly, 2, recur.Policy{}); kept.State != task.RecurrencePaused || string(kept.Payload) != "2" {
		t.Errorf("a paused one was given a definition: %+v, want it paused", kept)
	}
	extra, err := w.RunRecurrence(t.Context(), "ann", "breakfast")
	pipelinetest.Must(t, err)
	if row := w.store.Row(extra.ID); row.State != task.Pending || string(row.Payload) != "2" || row.DueAt.After(row.CreatedAt) {
		t.Errorf("run now: %+v", row)
	}
	_, err = w.Cancel(t.Context(), extra.ID) // it is not followed
	pipelinetest.Must(t, err)
	resumed, err := w.ResumeRecurrence(t.Context(), "ann", "breakfast")
	pipelinetest.Must(t, err)
	if next := w.wantPending(t, resumed); !next.DueAt.Equal(r.DueAt) || resumed.Note != "" || resumed.Made != 1 {
		t.Errorf("resumed: %+v, due at %v, want the tick of %v", resumed, next.DueAt, r.DueAt)
	}
}

// A call with an id can be repeated: it makes one task, with one line of the history.
func TestRunRecurrenceOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	id := task.NewID()
	run := func(owner string) (made task.Task, events int, err error) {
		time.Sleep(2 * time.Millisecond) // a call of another moment
		err = w.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
			made, err = insideOf(tx).RunRecurrenceOnce(t.Context(), owner, "breakfast", id)
			events = len(insideOf(tx).Ledger().Events())
			return err
		})
		return made, events, err
	}
	for i := range 3 {
		made, events, err := run("ann")
		if err != nil || made.ID != id || events != max(0, 1-i) {
			t.Errorf("call %d: made %v, %d lines, %v", i, made, events, err)
		}
		if i == 1 { // it is returned after its end as well
			_, err = w.Cancel(t.Context(), id)
			pipelinetest.Must(t, err)
		}
	}
	if n := len(w.pending(t, "ann")); n != 1 {
		t.Errorf("%d tasks are pending, want that of the timetable", n)
	}
	_, err := w.Recur(t.Context(), "breakfast", weekly, meal.Recurring("bob", 1), recur.Policy{})
	pipelinetest.Must(t, err)
	_, _, err = run("bob")
	if _, ok := errors.AsType[*task.FieldError](err); !ok {
		t.Errorf("the id of another owner's task: %v", err)
	}
}

// The same definition is no error once its End has passed, while its last task waits or after it: a service calls Recur at each start.
func TestRecurAfterItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := w.now(t).Add(-time.Hour)
	policy := recur.Policy{Start: begin, End: begin.Add(30 * time.Minute)}
	r := w.recur(t, "campaign", weekly, 1, recur.Policy{})
	text, err := policy.MarshalJSON()
	pipelinetest.Must(t, err)
	w.store.Exec("UPDATE duetime_recurrences SET policy = ?", string(text))
	if same := w.recur(t, "campaign", weekly, 1, policy); same.ID != r.ID || same.Newest != r.Newest {
		t.Errorf("with a task: got %+v, want it as it stands", same)
	}
	w.runEarly(t, r.Newest)
	if same := w.recur(t, "campaign", weekly, 1, policy); same.ID != r.ID || same.State != task.RecurrenceOver {
		t.Errorf("after its last task: got %+v, want it over", same)
	}
	_, err = w.Recur(t.Context(), "campaign", weekly, meal.Recurring("ann", 2), policy)
	if _, ok := errors.AsType[*task.FieldError](err); !ok {
		t.Errorf("another definition without a tick to come: %v", err)
	}
}

// A recurrence that is over stays known, so that the same definition does not begin it anew, until its owner's are stopped.
func TestRecurrenceThatIsOverStaysKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.recur(t, "welcome", weekly, 1, recur.Policy{Count: 1})
	w.runEarly(t, r.Newest)
	purged := func() int {
		n, err := w.store.PurgeRecurrences(t.Context(), w.now(t).Add(time.Millisecond), 100)
		pipelinetest.Must(t, err)
		return n
	}
	n := purged()
	if same := w.recur(t, "welcome", weekly, 1, recur.Policy{Count: 1}); n != 0 || same.ID != r.ID || same.State != task.RecurrenceOver {
		t.Errorf("%d rows were purged, and the same definition answers %+v, want the one that is over", n, same)
	}
	if rows := w.pending(t, "ann"); len(rows) != 0 {
		t.Errorf("pending are %v", rows)
	}
	_, err := w.StopRecurrences(t.Context(), "ann")
	pipelinetest.Must(t, err)
	if n := purged(); n != 1 {
		t.Errorf("%d rows were purged after the stop, want 1", n)
	}
}

// A stop that waits in vain for a transaction which runs the recurrence once more is told so as for any task.
func TestStopBesideALongRun(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: time.Second}))
	w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		if _, err := tx.RunRecurrence(t.Context(), "ann", "breakfast"); err != nil {
			return err
		}
		if _, err := w.StopRecurrence(context.WithoutCancel(t.Context()), "ann", "breakfast"); !errors.Is(err, task.ErrRunning) {
			t.Errorf("stop beside a run answers %v, want %v", err, task.ErrRunning)
		}
		return nil
	}))
}

// A task that RunRecurrence has made beside a stop does not outlive it: the stop waits for the transaction that makes it, and lists
// again what was made while it waited for another task.
func TestStopTakesBackWhatRunsBeside(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: time.Minute}))
	ctx := context.Background()
	halts := map[string]func() error{
		"stop":     func() error { _, err := w.StopRecurrence(ctx, "ann", "breakfast"); return err },
		"stop all": func() error { _, err := w.StopRecurrences(ctx, "ann"); return err },
		"pause":    func() error { _, err := w.PauseRecurrence(ctx, "ann", "breakfast", ""); return err },
	}
	for name, halt := range halts {
		w.recur(t, "breakfast", weekly, 1, recur.Policy{})
		halted := make(chan error, 1)
		pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
			if _, err := tx.RunRecurrence(t.Context(), "ann", "breakfast"); err != nil {
				return err
			}
			go func() { halted <- halt() }()
			pipelinetest.Await(t, "the lock", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
			return nil
		}))
		pipelinetest.Must(t, <-halted)
		if rows := w.pending(t, "ann"); len(rows) != 0 {
			t.Errorf("%s, of a task made before: pending are %v", name, rows)
		}
		_, err := w.StopRecurrences(t.Context(), "ann")
		pipelinetest.Must(t, err)

		r := w.recur(t, "breakfast", weekly, 1, recur.Policy{})
		holder, err := w.store.Begin(t.Context())
		pipelinetest.Must(t, err)
		_, err = w.store.Lock(t.Context(), holder, []task.ID{r.Newest})
		pipelinetest.Must(t, err)
		go func() { halted <- halt() }()
		pipelinetest.Await(t, "the lock", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		_, err = w.RunRecurrence(t.Context(), "ann", "breakfast")
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, holder.Rollback())
		pipelinetest.Must(t, <-halted)
		if rows := w.pending(t, "ann"); len(rows) != 0 {
			t.Errorf("%s, of a task made while it waited: pending are %v", name, rows)
		}
		_, err = w.StopRecurrences(t.Context(), "ann")
		pipelinetest.Must(t, err)
	}
}

// RunRecurrence that waits for a stop finds nothing to run.
func TestRunBesideAStop(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: time.Minute}))
	w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	ran := make(chan error, 1)
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		if _, err := tx.StopRecurrence(t.Context(), "ann", "breakfast"); err != nil {
			return err
		}
		go func() {
			_, err := w.RunRecurrence(context.Background(), "ann", "breakfast")
			ran <- err
		}()
		pipelinetest.Await(t, "the lock", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		return nil
	}))
	wantIs(t, <-ran, task.ErrNoRecurrence)
}

func TestStopRecurrences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"lunch", "breakfast", "supper"} {
		w.recur(t, name, weekly, 1, recur.Policy{})
	}
	_, err := w.Recur(t.Context(), "breakfast", weekly, meal.Recurring("bob", 1), recur.Policy{})
	pipelinetest.Must(t, err)
	_, err = w.PauseRecurrence(t.Context(), "ann", "supper", "")
	pipelinetest.Must(t, err)
	_, err = w.StopRecurrence(t.Context(), "ann", "lunch")
	pipelinetest.Must(t, err)
	all, err := w.Recurrences(t.Context(), "ann")
	pipelinetest.Must(t, err)
	if len(all) != 2 || all[0].Name != "breakfast" || all[1].Name != "supper" {
		t.Errorf("listed are %+v", all)
	}
	stopped, err := w.StopRecurrences(t.Context(), "ann")
	pipelinetest.Must(t, err)
	if len(stopped) != 2 || len(w.pending(t, "ann")) != 0 || len(w.pending(t, "bob")) != 1 {
		t.Errorf("%d stopped, %d and %d tasks are pending", len(stopped), len(w.pending(t, "ann")), len(w.pending(t, "bob")))
	}
	_, err = w.Recurrence(t.Context(), "ann", "lunch")
	wantIs(t, err, task.ErrNoRecurrence)
	if r := w.recur(t, "lunch", weekly, 1, recur.Policy{}); r.State != task.RecurrenceActive {
		t.Errorf("begun anew: %+v", r)
	}
}

// Callers define, pause, resume, run and cancel one recurrence at once: whatever their order, there is one pending tick at most,
// the recurrence names it, and no call ends in anything but success or the state that it found.
func TestRecurrenceFromManyConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recur(t, "breakfast", weekly, 0, recur.Policy{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 12 {
				var err error
				ctx := context.Background()
				switch (i + n) % 5 {
				case 0:
					_, err = w.Recur(ctx, "breakfast", weekly, meal.Recurring("ann", n), recur.Policy{})
				case 1:
					_, err = w.PauseRecurrence(ctx, "ann", "breakfast", "")
				case 2:
					_, err = w.ResumeRecurrence(ctx, "ann", "breakfast")
				default:
					var r task.Recurrence
					if r, err = w.Recurrence(ctx, "ann", "breakfast"); err == nil && !r.Newest.IsZero() {
						if _, err = w.Cancel(ctx, r.Newest); errors.Is(err, task.ErrAlreadyCancelled) {
							err = nil
						}
					}
				}
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	r, err := w.ResumeRecurrence(t.Context(), "ann", "breakfast")
	pipelinetest.Must(t, err)
	w.wantPending(t, r)
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_recurrences"); n != 1 {
		t.Errorf("there are %d recurrences, want one", n)
	}
}

// A caller who sees some kinds only does not take over a recurrence that was given another kind after the caller has read it.
func TestScopedRecurLeavesOtherKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	_, err := w.PauseRecurrence(t.Context(), "ann", "breakfast", "")
	pipelinetest.Must(t, err)
	scoped := func() error {
		return w.InTx(t.Context(), func(tx *schedule.Tx) error {
			insideOf(tx).Scope(func(kind string) bool { return kind == meal.Name() })
			_, err := tx.Recur(t.Context(), "breakfast", weekly, meal.Recurring("ann", 2), recur.Policy{})
			return err
		})
	}
	answered := make(chan error, 1)
	other := task.NewKind[int]("tea.time")
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		if _, err := tx.Recur(t.Context(), "breakfast", weekly, other.Recurring("ann", 3), recur.Policy{}); err != nil {
			return err
		}
		go func() { answered <- scoped() }()
		pipelinetest.Await(t, "the lock", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		return nil
	}))
	wantIs(t, <-answered, task.ErrNameTaken)
	wantIs(t, scoped(), task.ErrNameTaken)
	_, err = w.Recur(t.Context(), "breakfast", weekly, other.Recurring("ann", 3), recur.Policy{Revision: 1})
	pipelinetest.Must(t, err)
	wantIs(t, scoped(), task.ErrNameTaken)
	r, err := w.Recurrence(t.Context(), "ann", "breakfast")
	pipelinetest.Must(t, err)
	if r.Kind != "tea.time" || string(r.Payload) != "3" {
		t.Errorf("the recurrence is %+v", r)
	}
}

// A rotation of the keys begins no recurrence anew that is over.
func TestRotationLeavesWhatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := encrypt.Key{ID: "k1", Secret: make([]byte, 32)}
	secret := task.NewKind[int](meal.Name(), encrypt.Payloads(func(id string) (encrypt.Key, error) {
		if id == "k1" {
			return encrypt.Key{ID: "k1", Secret: make([]byte, 32)}, nil
		}
		return key, nil
	}))
	define := func(payload int) task.Recurrence {
		t.Helper()
		r, err := w.Recur(t.Context(), "welcome", weekly, secret.Recurring("ann", payload), recur.Policy{Count: 1})
		pipelinetest.Must(t, err)
		return r
	}
	define(1)
	w.store.Exec("UPDATE duetime_recurrences SET state = ?", task.RecurrenceOver)
	key = encrypt.Key{ID: "k2", Secret: append(make([]byte, 31), 1)}
	if r := define(1); r.State != task.RecurrenceOver {
		t.Errorf("it is %v after a rotation, want over", r.State)
	}
	if r := define(2); r.State != task.RecurrenceActive {
		t.Errorf("it is %v with another payload, want active", r.State)
	}
}
