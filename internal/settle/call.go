package settle

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var _ inside.Call = (*Call)(nil)

// Call is one call of a handler: its tasks, and its use of the transaction that it shares with other calls. A Call is
// over when its handler returns or is abandoned.
type Call struct {
	ctx     context.Context //nolint:containedctx // Bounds statements under a handler's own context.
	tx      *transaction
	handed  *schedule.Tx
	members []*member

	mu      sync.Mutex
	over    bool
	end     context.CancelFunc // ends prepared statements; nil while there are none
	ends    context.Context    //nolint:containedctx // Of prepared statements: ends when the handler has returned.
	results []io.Closer        // the handler may have left them open
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
		_ = r.Close() // the next statement finds out if the connection is lost
	}
}

// Len returns the number of tasks.
func (c *Call) Len() int { return len(c.members) }

// Task returns a task as locked.
func (c *Call) Task(i int) task.Task { return c.members[i].row }

// Tx returns the transaction as the handler uses it.
func (c *Call) Tx() *schedule.Tx { return c.handed }

// Now is the moment of the transaction on the database's clock. It is never before the tasks were locked. For a reader it is
// the task's own time.
func (c *Call) Now(ctx context.Context) (time.Time, error) {
	if !c.tx.asOf.IsZero() {
		return c.tx.asOf, nil
	}
	now, err := c.tx.ledger.Now(c.Bound(ctx))
	if err == nil && now.Before(c.tx.lockedAt) {
		now = c.tx.lockedAt
	}
	return now, err
}

// CloseAtEnd closes a result when the handler has returned. A result that is open when its context ends would close the
// connection.
func (c *Call) CloseAtEnd(r io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
}

// Bound makes ctx end with the handler's time, so that an abandoned handler can't keep the connection. After the call is
// over, Bound returns a context that has ended, so that the statement does not run in other calls' transaction.
func (c *Call) Bound(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return statement.EndedContext(ctx, errCallOver)
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

// ForTasks is Bound for a statement on tasks. It first marks done the tasks that have run. The call is not over before that.
func (c *Call) ForTasks(ctx context.Context) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallOver
	}
	ctx = c.bound(ctx)
	return ctx, c.tx.markDone(ctx)
}
