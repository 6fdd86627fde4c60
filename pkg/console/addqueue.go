package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// QueueUses counts what uses a queue, or will.
type QueueUses = protocol.QueueUses

// QueueUsedError answers RetireQueue for a queue that something uses.
type QueueUsedError struct {
	Queue string
	Uses  QueueUses
}

// Error names the uses.
func (e *QueueUsedError) Error() string {
	return fmt.Sprintf("queue %q is used by %s", e.Queue, e.Uses)
}

// QueueNames returns the queues of the deployment, sorted: those of the configuration, and those that operators have added.
func (c *Console) QueueNames(ctx context.Context) ([]string, error) {
	added, err := c.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	return c.withConfigured(added), nil
}

func (c *Console) withConfigured(queues []string) []string {
	all := slices.Concat(c.cfg.Queues, queues)
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckQueue returns an error that names the queues of the deployment unless the queue is one of them.
func (c *Console) CheckQueue(ctx context.Context, queue string) error {
	if c.isConfigured(queue) {
		return nil
	}
	names, err := c.QueueNames(ctx)
	if err == nil && !slices.Contains(names, queue) {
		err = &task.FieldError{Field: "queue", Problem: fmt.Sprintf("%q is none of the deployment's: %s", queue, strings.Join(names, ", "))}
	}
	return err
}

func (c *Console) isConfigured(queue string) bool { return slices.Contains(c.cfg.Queues, queue) }

// AddQueue adds a queue: services may schedule into it at once, workers that are started for it run its tasks, and the event process and
// the daemon know it within two seconds. Its topic is made by who needs it first: a worker of it, or the event process. added is false if the
// deployment has it.
func (c *Console) AddQueue(ctx context.Context, queue string) (added bool, err error) {
	names, err := c.QueueNames(ctx)
	if err != nil || slices.Contains(names, queue) {
		return false, err
	}
	if err := protocol.CheckNewQueue(queue, names); err != nil {
		return false, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if added, err = c.store.AddQueue(ctx, tx, queue, changes.Moment()); err != nil || !added {
			return err
		}
		changes.Note(event(changes, protocol.EventAdded, queue))
		return nil
	})
	return added, err
}

// RetireQueue ends a queue that was added, with its limit and its pauses; its topic stays. It answers a *QueueUsedError if something
// uses the queue, also a transaction that has not ended yet, and a *task.FieldError for one that the configuration has, or that was not
// added. Transactions that come to schedule into the queue meanwhile wait, and are refused if it is retired.
func (c *Console) RetireQueue(ctx context.Context, queue string) error {
	if err := protocol.CheckQueue(queue); err != nil {
		return err
	}
	if c.isConfigured(queue) {
		return &task.FieldError{Field: "queue", Problem: fmt.Sprintf("%q is of the configuration: take it out there first, and restart what reads it", queue)}
	}
	if err := c.checkUnused(ctx, c.store.DB(), queue); err != nil { // without a lock, for which those who schedule would wait
		return err
	}
	return c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error { return c.retire(ctx, tx, changes, queue) })
}

// retire forgets an added queue, unless something uses it that was not there at the count before.
func (c *Console) retire(ctx context.Context, tx *sqlx.Tx, changes *ledger.Tx, queue string) error {
	found, held, err := c.store.LockQueue(ctx, tx, queue)
	switch {
	case err != nil:
		return err
	case held:
		return &QueueUsedError{Queue: queue, Uses: QueueUses{Held: true}}
	case !found:
		return notAdded(queue)
	}
	if err := c.checkUnused(ctx, tx, queue); err != nil {
		return err
	}
	if err := c.store.ForgetQueue(ctx, tx, queue); err != nil {
		return err
	}
	changes.Note(event(changes, protocol.EventRetired, queue))
	return nil
}

// holdQueue keeps an added queue until the transaction ends: a limit or a pause of it must not outlive it.
func (c *Console) holdQueue(ctx context.Context, tx *sqlx.Tx, queue string) error {
	if queue == "" || c.isConfigured(queue) {
		return nil
	}
	found, err := c.store.HoldQueue(ctx, tx, queue)
	if err == nil && !found {
		err = notAdded(queue)
	}
	return err
}

func notAdded(queue string) error {
	return &task.FieldError{Field: "queue", Problem: fmt.Sprintf("%q was not added", queue)}
}

func (c *Console) checkUnused(ctx context.Context, q sqlx.QueryerContext, queue string) error {
	uses, err := c.store.QueueUses(ctx, q, queue)
	if err == nil && uses != (QueueUses{}) {
		err = &QueueUsedError{Queue: queue, Uses: uses}
	}
	return err
}
