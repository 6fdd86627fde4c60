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
	pendingPage     = 1000                   // pending rows that one statement reads
	requeueRounds   = 20                     // over all pending rows, while a round still finds some
	requeueInterval = 500 * time.Millisecond // before another round for tasks that workers held
)

// Requeued is the result of moving a kind's tasks to another queue.
type Requeued struct {
	Moved      int `json:"moved"`
	OldEntries int `json:"old_entries"` // entries of the old queue that are left in the index; the daemon's audit removes them
}

// Requeue moves the pending tasks of a kind to a queue of the configuration: from one queue, or from all others if from
// is empty. For queues of millions, Bulk has the daemon do it. Workers hold some tasks and services schedule new ones, so it repeats rounds until it finds no more. An error
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

// requeueRound reads all pending rows once, moves the matching ones, and counts those that somebody held.
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
			sum.Moved += len(out.changes)
			held += out.held
			if !c.indexRequeued(ctx, out) {
				sum.OldEntries += len(out.changes)
			}
		}
		if len(rows) < pendingPage {
			return held, nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

var maxDue = time.UnixMilli(1 << 41) // later than every due time that the index can hold

// requeueOutcome is the result of one batch.
type requeueOutcome struct {
	changes []task.Change // the old entries name the old queue
	held    int           // tasks that were locked, by a worker that runs them for example, or deleted
}

// requeueBatch moves the tasks that are pending, of this kind, and in another queue. It waits for no lock: a task that a
// worker runs may be done a moment later. The move raises the version like any other change, so that older hints and
// index writes are recognized as stale.
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
			out.changes = append(out.changes, task.Change{Before: row, After: changed})
			events = append(events, task.Event{
				At: now, Task: row.ID, Name: task.EventRequeued, Actor: c.cfg.Actor, Detail: "from " + row.Queue + " to " + queue,
			})
		}
		if len(events) == 0 {
			return nil
		}
		if err := c.store.Write(ctx, tx, out.changes); err != nil {
			return err
		}
		return c.store.Record(ctx, tx, events)
	})
	c.compensate(err, task.AfterOf(out.changes))
	return out, err
}

// indexRequeued puts the new entries, then drops the old ones; false if old entries are left. The new entries come first:
// a task with two entries fires once, but a task without one would wait for a sweep.
func (c *Console) indexRequeued(ctx context.Context, out requeueOutcome) bool {
	if len(out.changes) == 0 {
		return true
	}
	c.client.IndexTasks(ctx, task.AfterOf(out.changes))
	dropped := task.BeforeOf(out.changes) // marked as cancelled: a put drops the entries of ended tasks
	for i := range dropped {
		dropped[i].State, dropped[i].Version = task.Cancelled, out.changes[i].After.Version
	}
	return c.index.Put(ctx, dropped) == nil
}
