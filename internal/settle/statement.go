package settle

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/internal/statement"
)

// A handler shares its transaction with other tasks. A statement that ends the transaction would break it: race 12. So:
//
//   - A statement that certainly ends the transaction is refused before it is sent.
//   - Before a statement that may end the transaction (CALL, EXECUTE), the tasks that ran are marked done, so that mark and
//     effects last or vanish together, and a savepoint is set. If this savepoint no longer exists when the handler returns,
//     the transaction has ended: the handler has failed, and all other tasks run in another transaction.
//
// If a statement leaves state in the session (a variable, a temporary table), the store discards the connection.

// Admit is Bound for a statement of the handler. It refuses a statement that ends the transaction.
func (c *Call) Admit(ctx context.Context, query string) (context.Context, error) {
	switch statement.EffectOf(query) {
	case statement.Plain:
		return c.Bound(ctx), nil
	case statement.Ends:
		word, _ := statement.FirstWord(query)
		return nil, fmt.Errorf("%w: %s", errEnds, word)
	default:
		ctx, err := c.BoundForTasks(ctx)
		if err != nil {
			return nil, err
		}
		return ctx, c.tx.watch(ctx)
	}
}

// Admitted is Admit for callers that can't return an error: for a refused statement it returns a context that has ended.
func (c *Call) Admitted(ctx context.Context, query string) context.Context {
	allowed, err := c.Admit(ctx, query)
	if err != nil {
		return ended(ctx, err)
	}
	return allowed
}

// FollowSavepoint records a handler's statement that sets a savepoint, rolls back to one, or releases one. A rollback undoes
// the marks of tasks that were marked done since: they must be marked once more, or a handler's savepoint would undo other
// handlers' work. A rollback and a release also remove the watch that was set since. That they found the handler's older
// savepoint shows that the transaction stands, so the next statement that may end it sets the watch anew.
func (c *Call) FollowSavepoint(query string) {
	name, use := statement.Savepoint(query)
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	point, set := c.savepoints[name]
	switch {
	case c.over:
	case use == statement.GoesBack && set:
		c.tx.rewind(point)
	case use == statement.Releases && set:
		c.tx.watched = point.watched
	case use == statement.Sets && c.savepoints == nil:
		c.savepoints = map[string]checkpoint{name: c.tx.checkpoint()}
	case use == statement.Sets:
		c.savepoints[name] = c.tx.checkpoint()
	}
}

// BoundPrepared is used with Bound for a statement that is prepared: each run of the statement ends with the handler too.
func (c *Call) BoundPrepared(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends, c.end = context.WithCancel(c.ctx)
	}
	if c.over {
		c.end()
	}
	return statementContext{ctx, c.ends}
}

// statementContext tells the store's connection when the prepared statement ends: database/sql gives a run of the
// statement only the context of that run.
type statementContext struct {
	context.Context //nolint:containedctx // It is this context with one method more.

	ends context.Context //nolint:containedctx // StatementEnds returns it.
}

// StatementEnds returns the context of the statement's life.
func (c statementContext) StatementEnds() context.Context { return c.ends }

// watch sets the savepoint that stands looks for.
func (t *transaction) watch(ctx context.Context) error {
	if t.watched {
		return nil
	}
	t.watched = true
	_, err := t.tx.ExecContext(ctx, "SAVEPOINT duetime_stands")
	return err
}

// stands reports whether the watched transaction is still open. It is true without a watch, and if the connection is
// lost, which blame finds out.
func (t *transaction) stands() bool {
	if !t.watched {
		return true
	}
	t.watched = false
	_, err := t.tx.ExecContext(t.ctx, "RELEASE SAVEPOINT duetime_stands")
	s := t.settler.store
	return err == nil || s.Unavailable(err) || s.Retryable(err) || t.ctx.Err() != nil
}
