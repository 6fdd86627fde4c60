package settle

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Call is one call of a handler: its tasks, and its use of the transaction that it shares with other calls. A Call is
// over when its handler returns or is abandoned.
type Call struct {
	ctx     context.Context //nolint:containedctx // Bounds statements under a handler's own context.
	tx      *transaction
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

// Task returns a task as locked, and its decoded payload.
func (c *Call) Task(i int) (task.Task, any) { return c.members[i].row, c.members[i].payload }

// Runs reports whether the task belongs to the call.
func (c *Call) Runs(id task.ID) bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.row.ID == id })
}

// OwnTasks returns the call's tasks, with the transaction's changes.
func (c *Call) OwnTasks() []task.Task {
	own := collect(c.members, rowOf)
	for _, changed := range c.tx.ledger.Touched(0) {
		for i := range own {
			if own[i].ID == changed.ID {
				own[i] = changed
			}
		}
	}
	return own
}

// SQL returns the transaction. Statements need a context from this call.
func (c *Call) SQL() *sqlx.Tx { return c.tx.tx }

// Changes returns the transaction's changes of tasks. Its calls need a context from this call.
func (c *Call) Changes() *schedule.Tx { return c.tx.changes }

// Prepare returns the specs as Config.BeforeSchedule changes them, or its refusal.
func (c *Call) Prepare(ctx context.Context, specs []task.Spec) ([]task.Spec, error) {
	return c.tx.settler.cfg.BeforeSchedule.Apply(ctx, specs)
}

// LockedAt is when the tasks were locked, on the database's clock; for a reader, the task's own time.
func (c *Call) LockedAt() time.Time { return cmp.Or(c.tx.asOf, c.tx.lockedAt) }

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

// BoundForTasks is Bound for a statement on tasks. It first marks done the tasks that have run. The call is not over
// before that.
func (c *Call) BoundForTasks(ctx context.Context) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallOver
	}
	ctx = c.bound(ctx)
	return ctx, c.tx.markDone(ctx)
}
