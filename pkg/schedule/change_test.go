package schedule_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestEachChangeIsWrittenAndPut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made := w.make(t, "ann", task.Subject("cat"))
	if made.Version != 1 || made.Shard != protocol.Shard("ann", worldtest.Shards) || !made.DueAt.Equal(made.CreatedAt.Add(time.Hour)) {
		t.Errorf("scheduled %+v", made)
	}
	moved, err := w.Reschedule(ctx, made.ID, task.At(made.DueAt.Add(time.Minute)))
	pipelinetest.Must(t, err)
	if moved.Version != 2 || !moved.DueAt.Equal(made.DueAt.Add(time.Minute)) {
		t.Errorf("rescheduled %+v", moved)
	}
	shifted, err := w.Shift(ctx, made.ID, -2*time.Minute)
	pipelinetest.Must(t, err)
	if shifted.Version != 3 || !shifted.RunAt.Equal(made.DueAt.Add(-time.Minute)) {
		t.Errorf("shifted %+v", shifted)
	}
	cancelled, err := w.Cancel(ctx, made.ID)
	pipelinetest.Must(t, err)
	if diff := cmp.Diff(w.store.Row(made.ID), cancelled); diff != "" {
		t.Errorf("answer differs from the row (-row +answer):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, w.put(made.ID)); diff != "" {
		t.Errorf("versions put (-want +got):\n%s", diff)
	}
	_, err = w.Shift(ctx, made.ID, -time.Minute)
	wantIs(t, err, task.ErrAlreadyCancelled)
	_, err = w.Reschedule(ctx, made.ID, task.In(0))
	wantIs(t, err, task.ErrAlreadyCancelled)
	_, err = w.Cancel(ctx, task.NewID())
	wantIs(t, err, task.ErrNotFound)
}

func TestShiftRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct{ due, by, want time.Duration }{
		"later":              {time.Hour, time.Minute, time.Hour + time.Minute},
		"earlier":            {time.Hour, -time.Minute, 59 * time.Minute},
		"never before now":   {time.Hour, -2 * time.Hour, 0},
		"overdue stays":      {-time.Hour, -time.Minute, -time.Hour},
		"by nothing":         {-time.Hour, 0, -time.Hour},
		"overdue, later":     {-time.Hour, 2 * time.Hour, time.Hour},
		"overdue, still due": {-time.Hour, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := w.make(t, "ann")
			err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
				now, err := tx.Now(t.Context())
				if err != nil {
					return err
				}
				due := now.Add(test.due)
				_, err = tx.ExecContext(t.Context(), "UPDATE duetime_tasks SET due_at = ?, run_at = ? WHERE id = ?",
					due.UnixMilli(), due.UnixMilli(), row.ID[:])
				if err != nil {
					return err
				}
				shifted, err := tx.Shift(t.Context(), row.ID, test.by)
				if got := shifted.DueAt.Sub(now); got != test.want {
					t.Errorf("due %v after now, want %v", got, test.want)
				}
				return err
			})
			pipelinetest.Must(t, err)
		})
	}
}

func TestBulkIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a, b, gone := w.make(t, "ann"), w.make(t, "ann"), w.make(t, "ann")
	_, err := w.Cancel(ctx, gone.ID)
	pipelinetest.Must(t, err)
	err = w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.ShiftMany(ctx, []task.ID{b.ID, gone.ID, a.ID}, time.Minute)
		wantIs(t, err, task.ErrAlreadyCancelled)
		_, err = tx.CancelMany(ctx, []task.ID{b.ID, task.NewID()})
		wantIs(t, err, task.ErrNotFound)
		return nil // what was refused must not have changed anything
	})
	pipelinetest.Must(t, err)
	if got := w.store.Row(a.ID).Version + w.store.Row(b.ID).Version; got != 2 {
		t.Errorf("a refused call changed a task: versions %d in all, want 2", got)
	}
	var moved []task.Task
	err = w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		moved, err = tx.RescheduleMany(ctx, []task.ID{b.ID, a.ID, b.ID}, task.In(time.Minute))
		return err
	})
	pipelinetest.Must(t, err)
	if len(moved) != 3 || moved[0].ID != b.ID || moved[1].ID != a.ID || moved[2].Version != 2 {
		t.Errorf("moved %v", moved)
	}
}

func TestTooManyNamesFieldAndLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	ids := make([]task.ID, task.MaxPerCall+1)
	specs := make([]task.Spec, task.MaxPerCall+1)
	for i := range specs {
		specs[i] = meal.New("many", i, task.In(time.Hour))
		ids[i] = specs[i].ID()
	}
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.ScheduleMany(ctx, specs[1:]); err != nil {
			return err
		}
		_, err := tx.Schedule(ctx, specs[0])
		return err
	}))
	for name, call := range map[string]func(tx *schedule.Tx) error{
		"schedule":     func(tx *schedule.Tx) error { _, err := tx.ScheduleMany(ctx, specs); return err },
		"cancel":       func(tx *schedule.Tx) error { _, err := tx.CancelMany(ctx, ids); return err },
		"shift owner":  func(tx *schedule.Tx) error { _, err := tx.ShiftOwner(ctx, "many", "", time.Hour); return err },
		"cancel owner": func(tx *schedule.Tx) error { _, err := tx.CancelOwner(ctx, "many", meal.Name()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := w.InTx(ctx, call)
			var field *task.FieldError
			if !errors.As(err, &field) || field.Field != "tasks" || !strings.HasPrefix(field.Error(), "tasks must be at most 1000 in one ") {
				t.Errorf("error is %v", err)
			}
		})
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE version = 1 AND state = 0"); n != len(specs) {
		t.Errorf("%d tasks are untouched, want %d", n, len(specs))
	}
}

func TestOwnerWide(t *testing.T) {
	t.Parallel()
	other := task.NewKind[string]("nap.done")
	w := newWorld(t)
	ctx := t.Context()
	a, b := w.make(t, "ann"), w.make(t, "ann")
	ended, foreign := w.make(t, "ann"), w.make(t, "bob")
	_, err := w.Cancel(ctx, ended.ID)
	pipelinetest.Must(t, err)
	nap, err := w.Schedule(ctx, other.New("ann", "x", task.In(time.Hour)))
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		moved, err := tx.ShiftOwner(ctx, "ann", meal.Name(), -time.Minute)
		if len(moved) != 2 {
			t.Errorf("shifted %d tasks, want 2", len(moved))
		}
		return err
	}))
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		gone, err := tx.CancelOwner(ctx, "ann", "")
		if len(gone) != 3 {
			t.Errorf("cancelled %d tasks, want 3", len(gone))
		}
		return err
	}))
	got := map[task.ID]int64{}
	for _, row := range []task.Task{a, b, ended, foreign, nap} {
		got[row.ID] = w.store.Row(row.ID).Version
	}
	want := map[task.ID]int64{a.ID: 3, b.ID: 3, ended.ID: 2, foreign.ID: 1, nap.ID: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		none, err := tx.CancelOwner(ctx, "ann", "")
		if len(none) != 0 {
			t.Errorf("cancelled %d tasks again", len(none))
		}
		return err
	}))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	kept := w.make(t, "ann", task.Key("k"))
	if again := w.make(t, "ann", task.Key("k")); again.ID != kept.ID || again.Version != 1 {
		t.Errorf("Key gave %s at version %d, want %s as it was", again.ID, again.Version, kept.ID)
	}
	moved, err := w.Schedule(ctx, meal.New("ann", 2, task.In(time.Minute), task.KeyMove("k")))
	pipelinetest.Must(t, err)
	if moved.ID != kept.ID || moved.Version != 2 || !moved.DueAt.Before(kept.DueAt) {
		t.Errorf("KeyMove gave %+v", moved)
	}
	if diff := cmp.Diff([]int64{1, 2}, w.put(kept.ID)); diff != "" {
		t.Errorf("versions put (-want +got):\n%s", diff)
	}
	_, err = w.Cancel(ctx, kept.ID)
	pipelinetest.Must(t, err)
	if fresh := w.make(t, "ann", task.Key("k")); fresh.ID == kept.ID {
		t.Error("the key was not free after the task had ended")
	}
	once := w.make(t, "ann", task.Once("o"))
	_, err = w.Cancel(ctx, once.ID)
	pipelinetest.Must(t, err)
	if again := w.make(t, "ann", task.Once("o")); again.ID != once.ID || again.State != task.Cancelled {
		t.Errorf("Once gave %+v, want the cancelled task", again)
	}
	spec := meal.New("ann", 3, task.In(time.Hour))
	for range 2 {
		row, err := w.Schedule(ctx, spec)
		pipelinetest.Must(t, err)
		if row.ID != spec.ID() || row.Version != 1 {
			t.Errorf("the same spec gave %+v", row)
		}
	}
}

func TestKeysWithinOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	standing := w.make(t, "ann", task.KeyMove("old"))
	specs := []task.Spec{
		meal.New("ann", 1, task.In(1*time.Minute), task.KeyMove("new")),
		meal.New("ann", 2, task.In(2*time.Minute)),
		meal.New("ann", 3, task.In(3*time.Minute), task.KeyMove("new")),
		meal.New("ann", 4, task.In(4*time.Minute), task.KeyMove("old")),
		meal.New("ann", 5, task.In(5*time.Minute), task.KeyMove("new")),
	}
	var rows []task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		rows, err = tx.ScheduleMany(ctx, specs)
		return err
	}))
	type stand struct {
		id      task.ID
		version int64
		due     time.Duration
	}
	var got []stand
	for _, row := range rows {
		got = append(got, stand{row.ID, row.Version, row.DueAt.Sub(rows[1].CreatedAt)})
	}
	first := stand{specs[0].ID(), 2, 5 * time.Minute}
	want := []stand{first, {specs[1].ID(), 1, 2 * time.Minute}, first, {standing.ID, 2, 4 * time.Minute}, first}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stand{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for _, row := range rows {
		if diff := cmp.Diff(w.store.Row(row.ID), row); diff != "" {
			t.Errorf("answer differs from the row (-row +answer):\n%s", diff)
		}
	}
}

func TestManyAtOnceWithOneKeyMakeOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	options := map[string]func(string) task.Option{
		"key": task.Key, "move": task.KeyMove, "replace": task.KeyReplace, "once": task.Once,
		"window": func(k string) task.Option { return task.Window(k, task.MaxAhead) },
	}
	for name, option := range options {
		var mu sync.Mutex
		ids := map[task.ID]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				row, err := w.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour), option(name)))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[row.ID] = true
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("%s: %d tasks, want 1", name, len(ids))
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != len(options) {
		t.Errorf("%d rows, want %d", n, len(options))
	}
}

func TestWrongInputChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := meal.New("ann", 1, task.In(time.Hour))
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.ScheduleMany(t.Context(), []task.Spec{good, meal.New("", 1, task.In(0))})
		var field *task.FieldError
		if !errors.As(err, &field) || field.Field != "owner" {
			t.Errorf("error is %v, want one of the field owner", err)
		}
		return nil
	}))
	if w.exists(t, good.ID()) {
		t.Error("a part of the refused call was written")
	}
}

func TestTasksComeFromTheIndexOrTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann", task.Subject("cat"))
	w.asked = nil
	w.owned = []protocol.Entry{
		{ID: row.ID, Kind: meal.Name(), Owner: "ann", Score: protocol.ScoreOf(row)},
		{Kind: "other.kind"},
		{Err: errors.New("garbage")},
	}
	entries, source, err := w.Tasks(ctx, "ann", meal.Name())
	pipelinetest.Must(t, err)
	if source != schedule.FromIndex || len(entries) != 1 || entries[0].ID != row.ID {
		t.Errorf("from %s: %v", source, entries)
	}
	if diff := cmp.Diff([]int{protocol.Shard("ann", worldtest.Shards)}, w.asked); diff != "" {
		t.Errorf("shards asked (-want +got):\n%s", diff)
	}
	w.owned = nil
	if entries, source, err = w.Tasks(ctx, "ann", ""); err != nil || source != schedule.FromIndex || len(entries) != 0 {
		t.Errorf("of an index that is whole and has none, from %s: %v, %v", source, entries, err)
	}
	w.flushed, w.owned = true, []protocol.Entry{{Kind: "other.kind"}} // what came after the flush
	if entries, source, err = w.Tasks(ctx, "ann", ""); err != nil || source != schedule.FromDB || len(entries) != 1 {
		t.Errorf("of an index without memory, from %s: %v, %v", source, entries, err)
	}
	w.away = true
	entries, source, err = w.Tasks(ctx, "ann", meal.Name())
	pipelinetest.Must(t, err)
	if diff := cmp.Diff([]task.Task{row}, entries); diff != "" || source != schedule.FromDB {
		t.Errorf("from %s (-want +got):\n%s", source, diff)
	}
	if _, _, err = w.Tasks(ctx, "", ""); err == nil {
		t.Error("an empty owner was accepted")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err = w.Tasks(cancelled, "ann", ""); err == nil {
		t.Error("no error where neither answers")
	}
}

// While rows are moved to other shards, the list of an owner whose place moves comes from the database.
func TestListsWhileRowsMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	layout := func() protocol.Layout {
		l, err := w.store.Layout(ctx) // all processes read it each second
		pipelinetest.Must(t, err)
		return l
	}
	sources := func(want string) {
		t.Helper()
		if _, source, err := w.Tasks(ctx, "ann", ""); err != nil || source != want {
			t.Errorf("Tasks from %s, want %s; %v", source, want, err)
		}
		if page, err := w.TasksPage(ctx, "ann", "", schedule.Page{}); err != nil || page.Source != want {
			t.Errorf("TasksPage from %s, want %s; %v", page.Source, want, err)
		}
	}
	sources(schedule.FromIndex)
	const more = 512
	if protocol.Shard("ann", more) == protocol.Shard("ann", worldtest.Shards) {
		t.Fatal("ann's place does not move: take another owner")
	}
	pipelinetest.Must(t, w.store.BeginChange(ctx, w.store.DB(), layout(), more))
	l := layout()
	sources(schedule.FromDB)
	for _, moved := range []bool{false, true} {
		if moved {
			if _, err := w.store.Rehome(ctx, l, []task.ID{row.ID}); err != nil {
				t.Fatal(err)
			}
		}
		entries, source, err := w.Tasks(ctx, "ann", "")
		if err != nil || source != schedule.FromDB || len(entries) != 1 || entries[0].ID != row.ID {
			t.Errorf("moved %v: %v from %s, %v", moved, entries, source, err)
		}
	}
	n, err := w.CancelOwner(ctx, "ann", "")
	if err != nil || n != 1 {
		t.Errorf("CancelOwner: %d, %v", n, err)
	}
	pipelinetest.Must(t, w.store.EndChange(ctx, l, protocol.Event{At: time.Now(), Name: protocol.EventShards}))
	layout()
	sources(schedule.FromIndex)
}

// While the index may lack tasks that are due late, lists come from the database.
func TestListsOfAPartialIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	for _, partial := range []bool{true, false} {
		l, err := w.store.Layout(ctx)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, w.store.SetHorizon(ctx, l, 0, partial, protocol.Event{At: time.Now(), Name: protocol.EventHorizon}))
		_, err = w.store.Layout(ctx) // all processes read it each second
		pipelinetest.Must(t, err)
		want := map[bool]string{true: schedule.FromDB, false: schedule.FromIndex}[partial]
		entries, source, err := w.Tasks(ctx, "ann", "")
		if err != nil || source != want || partial && (len(entries) != 1 || entries[0].ID != row.ID) { // the index of this world is empty
			t.Errorf("partial %v: Tasks %v from %s, want %s; %v", partial, entries, source, want, err)
		}
		if page, err := w.TasksPage(ctx, "ann", "", schedule.Page{}); err != nil || page.Source != want {
			t.Errorf("partial %v: TasksPage from %s, want %s; %v", partial, page.Source, want, err)
		}
	}
}
