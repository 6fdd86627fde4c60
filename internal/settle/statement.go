package settle

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/internal/statement"
)

// A handler shares its transaction with other tasks, and its connection with whoever uses it next. A statement that ends the
// transaction would make the effects of all before it last without the word "done", and what follows commit one by one. So:
//
//   - A statement that certainly ends the transaction is refused before it is sent.
//   - One that may do so out of sight (CALL, EXECUTE) is preceded by the word "done" for what has run, which then lasts or goes
//     with its effects, and by a savepoint. If that savepoint no longer exists when the handler returns, neither does the
//     transaction: the handler has failed, and all else runs in another one.
//
// What a statement leaves in the session (a variable, a temporary table) goes with the connection: the store does not use it
// again.

// Admit is Bound for a statement of the handler's own. It refuses a statement that ends the transaction.
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

// Admitted is Admit for a call that can't return an error of its own: its ctx has ended before the statement is sent.
func (c *Call) Admitted(ctx context.Context, query string) context.Context {
	allowed, err := c.Admit(ctx, query)
	if err != nil {
		return ended(ctx, err)
	}
	return allowed
}

// FollowSavepoint records what a statement of the handler's did to a savepoint, if it is about one. Tasks that were marked
// done since are to be marked again: a handler's look at tasks causes the marking, and a savepoint of its own must not undo
// what others have done.
func (c *Call) FollowSavepoint(query string) {
	name, back := statement.Savepoint(query)
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	point, set := c.savepoints[name]
	switch {
	case c.over:
	case back && set:
		c.tx.rewind(point)
	case !back && c.savepoints == nil:
		c.savepoints = map[string]checkpoint{name: c.tx.checkpoint()}
	case !back:
		c.savepoints[name] = c.tx.checkpoint()
	}
}

// BoundPrepared is Bound's further half for a statement that is being prepared: each of its runs ends with the handler too.
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

// statementContext tells the store's connection when the statement that is prepared under it ends: database/sql hands a
// statement's runs only the contexts of those who run it.
type statementContext struct {
	context.Context //nolint:containedctx // It is this context, with one thing more to tell.

	ends context.Context //nolint:containedctx // It is what this carries.
}

// StatementEnds returns the context of the statement's life.
func (c statementContext) StatementEnds() context.Context { return c.ends }

// watch has stands tell whether the transaction goes on.
func (t *transaction) watch(ctx context.Context) error {
	if t.watched {
		return nil
	}
	t.watched = true
	_, err := t.tx.ExecContext(ctx, "SAVEPOINT duetime_stands")
	return err
}

// stands reports whether the transaction still is the one that was watched. It is true where nothing was watched, or where
// the connection is lost, which others find out.
func (t *transaction) stands() bool {
	if !t.watched {
		return true
	}
	t.watched = false
	_, err := t.tx.ExecContext(t.ctx, "RELEASE SAVEPOINT duetime_stands")
	s := t.settler.store
	return err == nil || s.Unavailable(err) || s.Retryable(err) || t.ctx.Err() != nil
}
