// Package refill has a kind of task whose effect is one row, and which schedules the next task of its owner. In the fault suite workers and
// readers run it, by the same handler.
package refill

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Every is from the due time of a task to that of the next one.
const Every = 20 * time.Second

// Table has a row for each effect, with the time on the database's clock, in Unix ms.
const Table = `CREATE TABLE chaos_refills (seq BIGINT AUTO_INCREMENT PRIMARY KEY, task_id BINARY(16) NOT NULL, at BIGINT NOT NULL,
  KEY (task_id)) ENGINE=InnoDB`

// Payload bounds an owner's tasks.
type Payload struct {
	UntilMs int64 `json:"until_ms"` // the last moment, in Unix ms, at which one is due
}

// Kind is the kind of these tasks.
var Kind = task.NewKind[Payload]("chaos.refill", task.Retry(task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond}))

// Handle registers the handler.
func Handle(mux *worker.Mux) {
	worker.Handle(mux, Kind, func(ctx context.Context, tx *worker.Tx, t worker.Task[Payload]) error {
		if next := t.DueAt.Add(Every); next.UnixMilli() <= t.Payload.UntilMs {
			if _, err := tx.Schedule(ctx, Kind.New(t.Owner, t.Payload, task.At(next))); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO chaos_refills (task_id, at) VALUES (?, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED))`, t.ID[:])
		return err
	})
}
