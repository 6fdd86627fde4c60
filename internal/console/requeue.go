package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

const (
	pendingPage     = 1000                   // pending rows looked at by one statement
	requeueRounds   = 20                     // through all pending rows, while some are still found
	requeueInterval = 500 * time.Millisecond // before a round for what workers held
)

// Requeued is what came of moving a kind's tasks to another queue.
type Requeued struct {
	Moved      int `json:"moved"`
	OldEntries int `json:"old_entries"` // that are left in the index, for the daemon's audit to remove
}

// Requeue moves the pending tasks of a kind to a queue of the configuration: from one queue, or from all others where from is
// empty. It goes through all pending tasks until it finds no more, for workers hold some and services make new ones. An error
// says what is left.
func (c *Console) Requeue(ctx context.Context, kind, from, to string) (sum Requeued, err error) {
	if err := c.CheckQueue(to); err != nil {
		return sum, err
	}
	held := 0
	for range requeueRounds {
		before := sum.Moved
		if held, err = c.requeueRound(ctx, kind, from, to, &sum); err != nil {
			return sum, err
		}
		if sum.Moved == before && held == 0 {
			return sum, nil
		}
		if held > 0 {
			select {
			case <-ctx.Done():
				return sum, ctx.Err()
			case <-time.After(requeueInterval):
			}
		}
	}
	if held > 0 {
		return sum, fmt.Errorf("%s left where they are, locked by somebody, such as workers that run them: run this again", tasks(held))
	}
	return sum, fmt.Errorf("still more tasks of kind %s are found outside of queue %s: does a service of before schedule them?", kind, to)
}

func tasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// requeueRound goes once through the pending rows, and counts those that somebody held.
func (c *Console) requeueRound(ctx context.Context, kind, from, to string, sum *Requeued) (held int, err error) {
	for after := (task.Cursor{}); ; {
		rows, err := c.store.Pending(ctx, time.Time{}, maxDue, after, pendingPage)
		if err != nil {
			return held, err
		}
		var ids []task.ID
		for _, row := range rows {
			if row.Kind == kind && row.Queue != to && (from == "" || row.Queue == from) {
				ids = append(ids, row.ID)
			}
		}
		for part := range slices.Chunk(ids, BulkBatch) {
			out, err := c.requeueBatch(ctx, part, kind, to)
			if err != nil {
				return held, err
			}
			sum.Moved += len(out.changed)
			held += out.held
			if !c.indexRequeued(ctx, out) {
				sum.OldEntries += len(out.before)
			}
		}
		if len(rows) < pendingPage {
			return held, nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

var maxDue = time.UnixMilli(1 << 41) // no row of ours is due later

// requeueOutcome is what came of one batch.
type requeueOutcome struct {
	changed []task.Task // as they stand now
	before  []task.Task // the same as they stood, in the same order: their old entries of the index name the old queue
	held    int         // in the hands of somebody else at that moment, such as a worker that runs them, or deleted
}

// requeueBatch moves those of the tasks to a queue that are pending, of this kind, and in another one. It waits for no lock: a
// task that a worker runs just now may be done a moment later. The change raises the version like any other, so that hints
// and writes of before are seen to be stale.
func (c *Console) requeueBatch(ctx context.Context, ids []task.ID, kind, queue string) (requeueOutcome, error) {
	var out requeueOutcome
	err := c.inTx(ctx, func(tx *sqlx.Tx, _ time.Time) error {
		rows, now, err := c.store.LockFree(ctx, tx, ids)
		if err != nil {
			return err
		}
		out = requeueOutcome{held: len(ids) - len(rows)}
		var events []task.Event
		for _, row := range rows {
			changed, err := row.Requeue(queue, now)
			if err != nil || changed.Version == row.Version || row.Kind != kind {
				continue
			}
			out.before, out.changed = append(out.before, row), append(out.changed, changed)
			events = append(events, task.Event{
				At: now, Task: row.ID, Name: task.EventRequeued, Actor: c.cfg.Actor, Detail: "from " + row.Queue + " to " + queue,
			})
		}
		if len(events) == 0 {
			return nil
		}
		if err := c.store.SaveQueue(ctx, tx, out.changed); err != nil {
			return err
		}
		return c.store.Record(ctx, tx, events)
	})
	if err != nil {
		return requeueOutcome{}, err
	}
	return out, nil
}

// indexRequeued puts the new entries and drops the old ones; false if the old ones are left. The new entries come first: a
// task that stands twice fires once, one that stands nowhere would wait for a sweep.
func (c *Console) indexRequeued(ctx context.Context, out requeueOutcome) bool {
	if len(out.changed) == 0 {
		return true
	}
	c.client.IndexTasks(ctx, out.changed)
	dropped := slices.Clone(out.before) // as ended tasks: a put drops the entries of such, and an entry's member names the queue
	for i := range dropped {
		dropped[i].State, dropped[i].Version = task.Cancelled, out.changed[i].Version
	}
	return c.index.Put(ctx, dropped) == nil
}
