package schedule_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// The answer to a COMMIT was lost, the task has run and its row has left duetime_tasks: the same spec, scheduled again, is that task. So it is
// whichever way it goes in, and for whoever has chosen its id.
func TestTheSameSpecAfterItsTaskHasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	again := map[string]func(spec task.Spec) (task.Task, error){
		"by a statement": func(spec task.Spec) (task.Task, error) { return w.Schedule(ctx, spec) },
		"in a transaction": func(spec task.Spec) (made task.Task, err error) {
			return made, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
				made, err = tx.Schedule(ctx, spec)
				return err
			})
		},
		"by its id": func(spec task.Spec) (task.Task, error) {
			return w.Schedule(ctx, meal.New("ann", 1, task.In(0), task.WithID(spec.ID())))
		},
		"among others": func(spec task.Spec) (made task.Task, err error) {
			return made, w.InTx(ctx, func(tx *schedule.Tx) error {
				rows, err := tx.ScheduleMany(ctx, []task.Spec{meal.New("ann", 2, task.In(time.Hour)), spec})
				if err == nil {
					made = rows[1]
				}
				return err
			})
		},
	}
	for name, call := range again {
		for of, opts := range map[string][]task.Option{"plain": nil, "with a key": {task.Key(name)}} {
			id := task.NewID()
			binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(id[:8])-uint64(time.Hour.Milliseconds())<<16) // an hour ago
			spec := meal.New("ann", 1, task.In(0), append(slices.Clone(opts), task.WithID(id))...)
			made, err := w.Schedule(ctx, spec)
			pipelinetest.Must(t, err)
			w.store.Exec("UPDATE duetime_tasks SET state = 1, version = 2, dedup_key = NULL, finished_at = 1, updated_at = 1 WHERE id = ?", made.ID[:])
			w.archive(t)
			got, err := call(spec)
			pipelinetest.Must(t, err)
			if got.ID != made.ID || got.State != task.Done {
				t.Errorf("%s, %s: it is %s, %s; want %s, done", name, of, got.ID, got.State, made.ID)
			}
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE payload = '1'"); n != 0 {
		t.Errorf("%d tasks were made once more", n)
	}
}

// archive moves all that has ended, and fails the test unless all has.
func (w *world) archive(t *testing.T) {
	t.Helper()
	daemon := worldtest.OpenStore(t, w.store.DSN, store.Options{}) // which begins at the oldest row
	for more := true; more; {
		var err error
		_, more, err = daemon.Archive(t.Context(), time.Now(), 100)
		pipelinetest.Must(t, err)
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state <> 0"); n != 0 {
		t.Fatalf("%d ended rows are left", n)
	}
}

// Whoever asks for a task that has left, or would change it, is answered as before.
func TestATaskThatHasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made := w.make(t, "ann")
	w.store.Exec("UPDATE duetime_tasks SET state = 2, version = 2, finished_at = 1, updated_at = 1 WHERE id = ?", made.ID[:])
	w.archive(t)
	got, err := w.Get(ctx, made.ID)
	pipelinetest.Must(t, err)
	if got.State != task.Cancelled || got.Owner != "ann" {
		t.Errorf("Get answers %+v", got)
	}
	for name, change := range map[string]func(ctx context.Context, id task.ID) error{
		"cancel": func(ctx context.Context, id task.ID) error { _, err := w.Cancel(ctx, id); return err },
		"move":   func(ctx context.Context, id task.ID) error { _, err := w.Reschedule(ctx, id, task.In(0)); return err },
	} {
		_, unknown := w.Cancel(ctx, task.NewID())
		wantIs(t, unknown, task.ErrNotFound)
		if err := change(ctx, made.ID); err == nil || err.Error() == unknown.Error() {
			t.Errorf("%s answers %v", name, err)
		} else {
			wantIs(t, err, task.ErrFinished)
		}
	}
}
