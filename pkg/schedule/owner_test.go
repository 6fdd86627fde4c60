package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A change of all of an owner's tasks waits for a handler at work, and includes what the handler has scheduled.
func TestOwnerWideChangesIncludeFollowUps(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(ctx context.Context, w *world) (int, error){
		"cancel": func(ctx context.Context, w *world) (int, error) { return w.CancelOwner(ctx, "ann", "") },
		"cancel in a transaction": func(ctx context.Context, w *world) (n int, err error) {
			return n, w.InTx(ctx, func(tx *schedule.Tx) error {
				rows, err := tx.CancelOwner(ctx, "ann", "")
				n = len(rows)
				return err
			})
		},
		"shift": func(ctx context.Context, w *world) (n int, err error) {
			return n, w.InTx(ctx, func(tx *schedule.Tx) error {
				rows, err := tx.ShiftOwner(ctx, "ann", "", time.Hour)
				n = len(rows)
				return err
			})
		},
	} {
		for end, finish := range map[string]func(ctx context.Context, w *world, tx *sqlx.Tx, row task.Task, now time.Time) error{
			"that ended": func(ctx context.Context, w *world, tx *sqlx.Tx, row task.Task, now time.Time) error {
				return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, now)
			},
			"that moved itself": func(ctx context.Context, w *world, tx *sqlx.Tx, row task.Task, _ time.Time) error {
				_, err := schedule.NewTx(tx, w.store).Reschedule(ctx, row.ID, task.In(time.Minute))
				return err
			},
		} {
			t.Run(name+" beside a task "+end, func(t *testing.T) {
				t.Parallel()
				w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: 30 * time.Second}))
				ctx := t.Context()
				running, standing := w.make(t, "ann"), w.make(t, "ann")
				handler, err := w.store.Begin(ctx)
				pipelinetest.Must(t, err)
				_, now, err := w.store.LockFree(ctx, handler, []task.ID{running.ID})
				pipelinetest.Must(t, err)
				var n int
				changed := make(chan error)
				go func() {
					var err error
					n, err = change(ctx, w)
					changed <- err
				}()
				pipelinetest.Await(t, "the change waits", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
				next, err := schedule.NewTx(handler, w.store).Schedule(ctx, meal.New("ann", 2, task.In(time.Hour)))
				pipelinetest.Must(t, err)
				pipelinetest.Must(t, finish(ctx, w, handler, running, now))
				pipelinetest.Must(t, handler.Commit())
				pipelinetest.Must(t, <-changed)
				pending := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0")
				if want := 2 + w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state <> 1 AND id = ?", running.ID[:]); n != want {
					t.Errorf("changed %d tasks, want %d", n, want)
				}
				if name != "shift" && pending != 0 {
					t.Errorf("%d tasks are pending, want none", pending)
				}
				for _, row := range []task.Task{standing, next} {
					if v := w.store.Row(row.ID).Version; v != 2 {
						t.Errorf("version %d of %v, want 2: changed once", v, row.ID)
					}
				}
			})
		}
	}
}
