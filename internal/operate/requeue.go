package operate

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Requeued is what came of moving tasks to another queue.
type Requeued struct {
	Changed []task.Task // as they stand now
	Before  []task.Task // the same as they stood, in the same order: their old entries of the index name the old queue
	Held    int         // in the hands of somebody else at that moment, such as a worker that runs them, or gone
}

// Requeue moves those of the tasks to a queue that are pending, of this kind, and in another one. It waits for no lock: a task
// that a worker runs just now may be done a moment later. The change raises the version like any other, so that hints and
// writes of before are seen to be stale.
func (o *Operator) Requeue(ctx context.Context, ids []task.ID, kind, queue string) (Requeued, error) {
	var out Requeued
	err := o.inTx(ctx, func(tx *sqlx.Tx, _ time.Time) error {
		rows, now, err := o.store.LockFree(ctx, tx, ids)
		if err != nil {
			return err
		}
		out = Requeued{Held: len(ids) - len(rows)}
		var events []task.Event
		for _, row := range rows {
			changed, err := row.Requeue(queue, now)
			if err != nil || changed.Version == row.Version || row.Kind != kind {
				continue
			}
			out.Before, out.Changed = append(out.Before, row), append(out.Changed, changed)
			events = append(events, task.Event{
				At: now, Task: row.ID, Name: task.EventRequeued, Actor: o.actor, Detail: "from " + row.Queue + " to " + queue,
			})
		}
		if len(events) == 0 {
			return nil
		}
		if err := o.store.SaveQueue(ctx, tx, out.Changed); err != nil {
			return err
		}
		return o.store.Record(ctx, tx, events)
	})
	if err != nil {
		return Requeued{}, err
	}
	return out, nil
}
