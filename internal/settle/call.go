package settle

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Call is one call of a handler: its tasks, and its use of the transaction that it shares with others. It is over when the
// handler returns, or is abandoned.
type Call struct {
	ctx     context.Context //nolint:containedctx // Bounds what a handler does with a context of its own.
	tx      *transaction
	members []*member // whose handler this is

	mu         sync.Mutex
	over       bool
	savepoints map[string]checkpoint // that the handler has set, by their names
	end        context.CancelFunc    // ends prepared statements; nil while there are none
	ends       context.Context       //nolint:containedctx // Of prepared statements: over when the handler has returned.
	results    []io.Closer           // that the handler may have left open
}

func (c *Call) close() {
	c.mu.Lock()
	results, end := c.results, c.end
	c.over, c.results = true, nil
	c.mu.Unlock()
	if end != nil {
		end()
	}
	for _, r := range results {
		_ = r.Close() // of no use to anybody; a lost connection is found out by the next statement
	}
}

// Len returns the number of tasks.
func (c *Call) Len() int { return len(c.members) }

// Task returns a task as it was locked, and its decoded payload.
func (c *Call) Task(i int) (task.Task, any) { return c.members[i].row, c.members[i].payload }

// Runs reports whether the task is one of the call's.
func (c *Call) Runs(id task.ID) bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.row.ID == id })
}

// OwnTasks returns the call's tasks as they stand in the transaction.
func (c *Call) OwnTasks() []task.Task {
	own := of(c.members, rowOf)
	for _, changed := range c.tx.changes.Touched() {
		for i := range own {
			if own[i].ID == changed.ID {
				own[i] = changed
			}
		}
	}
	return own
}

// SQL returns the transaction, for statements whose context came from this call.
func (c *Call) SQL() *sqlx.Tx { return c.tx.tx }

// Changes returns what changes tasks, for calls whose context came from this call.
func (c *Call) Changes() *schedule.Tx { return c.tx.changes }

// LockedAt is when the tasks were locked, on the database's clock.
func (c *Call) LockedAt() time.Time { return c.tx.lockedAt }

// CloseAtEnd has a result closed with the handler: the end of its context would close the connection.
func (c *Call) CloseAtEnd(r io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
}

// Bound makes ctx end with the handler's time, so that an abandoned handler can't keep the connection. Once that is over ctx
// has ended before the statement begins, which then leaves the others' transaction alone.
func (c *Call) Bound(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ended(ctx, errCallOver)
	}
	return c.bound(ctx)
}

func (c *Call) bound(ctx context.Context) context.Context {
	if ctx == c.ctx {
		return ctx
	}
	bounded, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { cancel(c.ctx.Err()) })
	return bounded
}

func ended(ctx context.Context, cause error) context.Context {
	over, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	return over
}

// BoundForTasks is Bound for a statement on tasks: those that have run look done to it. The handler is not over before that
// ended.
func (c *Call) BoundForTasks(ctx context.Context) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallOver
	}
	ctx = c.bound(ctx)
	return ctx, c.tx.markDone(ctx)
}
