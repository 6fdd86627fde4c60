package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A done row says which worker ran its task, and how long each step took. Tasks of one transaction share when they were taken, when its
// first handler began, and when they were marked done.
func TestDoneRowsSayHowTheyRan(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		const slow, rounded = 40 * time.Millisecond, 16 // a row keeps a duration to a sixteenth
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if tk.Payload.Word == "1" {
				time.Sleep(slow)
			}
			return effect(ctx, tx, tk)
		})
		wk := w.worker(mux, engine.Config{})
		made := w.due(meal, 4)
		w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 60000, run_at = due_at, created_at = due_at WHERE id = ?", made[3].ID[:])
		// SQLite has read the due time of before.
		w.store.Exec("UPDATE duetime_tasks SET run_at = due_at, created_at = due_at WHERE id = ?", made[3].ID[:])
		made[3] = w.store.Row(made[3].ID)
		w.pass(wk, made...)
		var all []protocol.Ran
		for _, m := range made {
			row := w.store.Row(m.ID)
			want(t, "state", row.State, task.Done)
			ran, known := protocol.UnpackRan(row.Ran)
			want(t, "the row says how it ran", known, true)
			want(t, "worker", ran.Worker, protocol.WorkerNumber(wk.ID()))
			whole, sum := row.FinishedAt.Sub(row.RunAt), ran.Hinted+ran.Taken+ran.Started+ran.Ended
			want(t, "the steps are the whole", (sum-whole).Abs() <= whole/rounded+2*time.Second, true) // the clock is an estimate
			all = append(all, ran)
		}
		for _, ran := range all[1:] {
			want(t, "the transaction's first handler", ran.Started, all[0].Started)
			want(t, "the transaction's end", ran.Ended, all[0].Ended)
		}
		want(t, "the slow handler's time", all[1].Handler >= slow-slow/rounded, true)
		want(t, "it is a part of the transaction's", all[1].Ended >= slow-slow/rounded, true)
		want(t, "a hint that came a minute late", all[3].Hinted >= time.Minute-time.Minute/rounded, true)
		want(t, "the others' hints came sooner", all[0].Hinted < all[3].Hinted, true)
	})
}
