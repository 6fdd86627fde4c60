package schedule_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestKeyReplace(t *testing.T) {
	t.Parallel()
	later := task.NewKind[int](meal.Name(), task.Queue("vets"), task.MaxAttempts(7)) // as a later version declares it
	w := newWorld(t)
	ctx := t.Context()
	first := w.make(t, "ann", task.KeyReplace("k"), task.Subject("cat"))
	w.store.Exec("UPDATE duetime_tasks SET attempt = 2, last_error = 'sick', run_at = run_at + 1000 WHERE id = ?", first.ID[:])

	spec := later.New("ann", 2, task.In(2*time.Hour), task.KeyReplace("k"), task.Subject("dog"))
	got, err := w.Schedule(ctx, spec)
	pipelinetest.Must(t, err)
	want := first
	want.Payload, want.MaxAttempts, want.Version = []byte("2"), 7, 2
	want.UpdatedAt = got.UpdatedAt
	want.DueAt, want.RunAt = got.UpdatedAt.Add(2*time.Hour), got.UpdatedAt.Add(2*time.Hour)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.store.Row(first.ID), got); diff != "" {
		t.Errorf("answer differs from the row (-row +answer):\n%s", diff)
	}
	if o := spec.Outcome(got); o != task.Replaced {
		t.Errorf("outcome %v, want replaced", o)
	}
	if diff := cmp.Diff([]int64{1, 2}, w.put(first.ID)); diff != "" {
		t.Errorf("versions put (-want +got):\n%s", diff)
	}

	_, err = w.Cancel(ctx, first.ID)
	pipelinetest.Must(t, err)
	if fresh := w.make(t, "ann", task.KeyReplace("k")); fresh.ID == first.ID {
		t.Error("the key was not free after the task had ended")
	}
	w.Close(ctx) // writes the history
	line := "service replaced" + movedBy(got.DueAt.Sub(first.DueAt), got)[len("service moved"):]
	if diff := cmp.Diff([]string{line, "service cancelled "}, w.life(t, first.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// A task that is scheduled again and again is due within MaxWait of its first scheduling, or of its handler's last call.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, key := range map[string]func(string) task.Option{"move": task.KeyMove, "replace": task.KeyReplace} {
		again := func(in time.Duration) task.Task {
			t.Helper()
			made, err := w.Schedule(t.Context(), meal.New("ann", 1, task.In(in), key(name), task.MaxWait(time.Hour)))
			pipelinetest.Must(t, err)
			return made
		}
		first := again(10 * time.Minute)
		latest := first.CreatedAt.Add(time.Hour)
		w.store.Exec("UPDATE duetime_tasks SET created_at = created_at - 3000000 WHERE id = ?", first.ID[:]) // 50 minutes
		latest = latest.Add(-50 * time.Minute)
		if got := again(2 * time.Minute); got.ID != first.ID || got.DueAt.Sub(got.UpdatedAt) != 2*time.Minute {
			t.Errorf("%s: due %v after it was scheduled again, want 2m", name, got.DueAt.Sub(got.UpdatedAt))
		}
		if got := again(30 * time.Minute); !got.DueAt.Equal(latest) {
			t.Errorf("%s: due at %v, want %v", name, got.DueAt, latest)
		}
		w.store.Exec("UPDATE duetime_tasks SET created_at = created_at - 3600000 WHERE id = ?", first.ID[:])
		if got := again(30 * time.Minute); !got.DueAt.Equal(got.UpdatedAt) {
			t.Errorf("%s: due %v after the hour is over, want at once", name, got.DueAt.Sub(got.UpdatedAt))
		}
		w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 5000 WHERE id = ?", first.ID[:])
		overdue := w.store.Row(first.ID).DueAt
		if got := again(30 * time.Minute); !got.DueAt.Equal(overdue) || !got.RunAt.Equal(overdue) {
			t.Errorf("%s: an overdue task is due at %v, and tried at %v, want its due time %v", name, got.DueAt, got.RunAt, overdue)
		}
		w.store.Exec("UPDATE duetime_tasks SET tried_at = updated_at WHERE id = ?", first.ID[:])
		if got := again(2 * time.Hour); !got.DueAt.Equal(got.TriedAt.Add(time.Hour)) {
			t.Errorf("%s: due %v after its handler was called, want 1h", name, got.DueAt.Sub(got.TriedAt))
		}
	}
	skips := task.NewKind[int](meal.Name(), task.CatchUpWindow(time.Second))
	late := w.make(t, "eve", task.KeyMove("k"))
	w.store.Exec("UPDATE duetime_tasks SET created_at = created_at - 9000000, due_at = due_at - 9000000 WHERE id = ?", late.ID[:])
	got, err := w.Schedule(t.Context(), skips.New("eve", 1, task.In(time.Hour), task.KeyMove("k"), task.MaxWait(time.Minute)))
	if pipelinetest.Must(t, err); !got.DueAt.Equal(got.UpdatedAt) {
		t.Errorf("a change that the window would skip is due at %v, want now, %v", got.DueAt, got.UpdatedAt)
	}
	if got := w.make(t, "bob", task.KeyMove("k"), task.MaxWait(time.Second)); got.DueAt.Sub(got.CreatedAt) != time.Second {
		t.Errorf("the first one is due in %v, want 1s", got.DueAt.Sub(got.CreatedAt))
	}
}

// The specs of one call change a task in their order, by one write.
func TestKeysThatMoveAndReplaceWithinOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	moved, replaced := w.make(t, "ann", task.Key("a")), w.make(t, "ann", task.Key("b"))
	kept, both := w.make(t, "ann", task.Key("c")), w.make(t, "ann", task.Key("d"))
	specs := []task.Spec{
		meal.New("ann", 2, task.In(time.Minute), task.KeyMove("a")),
		meal.New("ann", 3, task.In(2*time.Minute), task.KeyReplace("b")),
		meal.New("ann", 4, task.In(3*time.Minute), task.Key("c")),
		meal.New("ann", 5, task.In(4*time.Minute), task.KeyReplace("d")),
		meal.New("ann", 6, task.In(5*time.Minute), task.KeyMove("d")),
		meal.New("ann", 7, task.In(6*time.Minute), task.KeyReplace("new")),
		meal.New("ann", 8, task.In(7*time.Minute), task.KeyReplace("new")),
	}
	var rows []task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		rows, err = tx.ScheduleMany(ctx, specs)
		return err
	}))
	type stand struct {
		ID      task.ID
		Version int64
		Payload string
		In      time.Duration
		Outcome task.Outcome
	}
	var got []stand
	for i, row := range rows {
		in := row.DueAt.Sub(row.UpdatedAt)
		if i == 2 {
			in = 0 // as it was
		}
		got = append(got, stand{row.ID, row.Version, string(row.Payload), in, specs[i].Outcome(row)})
		if diff := cmp.Diff(w.store.Row(row.ID), row); diff != "" {
			t.Errorf("answer differs from the row (-row +answer):\n%s", diff)
		}
	}
	want := []stand{
		{moved.ID, 2, "1", time.Minute, task.Moved},
		{replaced.ID, 2, "3", 2 * time.Minute, task.Replaced},
		{kept.ID, 1, "1", 0, task.Kept},
		{both.ID, 2, "5", 5 * time.Minute, task.Replaced},
		{both.ID, 2, "5", 5 * time.Minute, task.Moved},
		{specs[5].ID(), 2, "8", 7 * time.Minute, task.Made},
		{specs[5].ID(), 2, "8", 7 * time.Minute, task.Replaced},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	w.Close(ctx) // writes the history
	for row, line := range map[*task.Task]string{&moved: "service moved", &replaced: "service replaced", &both: "service replaced"} {
		if life := w.life(t, row.ID); len(life) != 1 || !strings.HasPrefix(life[0], line) {
			t.Errorf("history is %q, want one line %q", life, line)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outcome := func(spec task.Spec) task.Outcome {
		t.Helper()
		row, err := w.Schedule(t.Context(), spec)
		pipelinetest.Must(t, err)
		return spec.Outcome(row)
	}
	for name, test := range map[string]struct {
		option func(string) task.Option
		second task.Outcome
	}{
		"key":     {task.Key, task.Kept},
		"move":    {task.KeyMove, task.Moved},
		"replace": {task.KeyReplace, task.Replaced},
		"once":    {task.Once, task.Kept},
		"window":  {func(k string) task.Option { return task.Window(k, task.MaxAhead) }, task.Kept},
	} {
		for i, want := range []task.Outcome{task.Made, test.second} {
			if got := outcome(meal.New("ann", i, task.In(time.Hour), test.option(name))); got != want {
				t.Errorf("%s: call %d: %v, want %v", name, i, got, want)
			}
		}
	}
	plain := meal.New("ann", 1, task.In(time.Hour))
	for range 2 { // a repeated call says the same
		if got := outcome(plain); got != task.Made {
			t.Errorf("without a key: %v, want made", got)
		}
	}
}

func TestWindowAdmitsOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	decade := task.Window("k", task.MaxAhead)
	admitted := w.make(t, "ann", decade)
	_, err := w.Cancel(ctx, admitted.ID)
	pipelinetest.Must(t, err)
	if next := w.make(t, "ann", decade); next.ID != admitted.ID || next.State != task.Cancelled {
		t.Errorf("got %v in state %v, want the task that was admitted", next.ID, next.State)
	}
	for name, other := range map[string]task.Task{
		"another owner": w.make(t, "bob", decade), "another key": w.make(t, "ann", task.Window("l", task.MaxAhead)),
		"another length": w.make(t, "ann", task.Window("k", task.MaxAhead/2)), "Once": w.make(t, "ann", task.Once("k")),
	} {
		if other.ID == admitted.ID {
			t.Errorf("%s found the task", name)
		}
	}
}

// The database's clock says which window it is, and a transaction has one moment.
func TestWindowIsOfTheTransactionsMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	second := func() task.Spec { return meal.New("ann", 1, task.In(time.Hour), task.Window("k", time.Second)) }
	var first, within task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if first, err = tx.Schedule(ctx, second()); err != nil {
			return err
		}
		end := first.CreatedAt.Truncate(time.Second).Add(time.Second)
		pipelinetest.Await(t, "the end of the window", func() bool { return time.Now().After(end) })
		within, err = tx.Schedule(ctx, second())
		return err
	}))
	if within.ID != first.ID {
		t.Error("one transaction scheduled two tasks")
	}
	next, err := w.Schedule(ctx, second())
	pipelinetest.Must(t, err)
	if next.ID == first.ID {
		t.Error("the next window admits no task")
	}
}

func TestWindowOutsideTheLimitsChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour), task.Window("k", time.Millisecond)))
	var field *task.FieldError
	if !errors.As(err, &field) || field.Field != "window" {
		t.Errorf("error is %v, want one of the field window", err)
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// A thousand replaces are few statements, whose payloads differ.
func TestReplaceMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	thousand := func(from int) []task.Task {
		specs := make([]task.Spec, task.MaxPerCall)
		for i := range specs {
			specs[i] = meal.New("ann", from+i, task.In(time.Hour), task.KeyReplace(strconv.Itoa(i)))
		}
		var rows []task.Task
		pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
			rows, err = tx.ScheduleMany(t.Context(), specs)
			return err
		}))
		return rows
	}
	made, replaced := thousand(0), thousand(5000)
	for i, row := range replaced {
		if stored := w.store.Row(made[i].ID); row.ID != made[i].ID || string(stored.Payload) != strconv.Itoa(5000+i) {
			t.Fatalf("task %d: replaced %v by %s, want %v by %d", i, row.ID, stored.Payload, made[i].ID, 5000+i)
		}
	}
}
