package settle

import "context"

// A handler shares its transaction with other tasks, and may send any text. So race 12 is held by the server's own answers:
//
//   - A statement that certainly ends the transaction is refused by the connection.
//   - Before a call's first statement that is not known to be plain, the tasks that ran are marked done, so that mark and effects
//     last or vanish together, and a savepoint is set. When the call returns, the savepoint is released. If it is gone, the
//     transaction has ended: the handler has failed, and all other tasks run in another transaction. With it go the handler's
//     savepoints, so that no other handler goes back to them. No mark is made while they stand, so going back undoes none.
//   - What a handler did to tasks is remembered. A savepoint whose statements can't be followed may have undone it, so the rows
//     are compared with what is remembered.
//   - After a statement that may have changed the session (a variable, a temporary table), the batch ends with its call, and the
//     store discards the connection.

// Admit is Bound for a statement of the handler. followed says that Follow is called after it.
func (c *Call) Admit(ctx context.Context, query string, followed bool) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallOver
	}
	ctx = c.bound(ctx)
	return ctx, c.tx.guard.Admit(ctx, c.tx.tx, query, followed, c.tx.markDone)
}

// Follow has do follow a statement about savepoints, unless there was none before.
func (c *Call) Follow(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.tx.guard.Nested() {
		do()
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

// release ends the guard of a call's statements. errEnded says that one has ended the transaction; another error, that one has
// undone what is remembered of tasks.
func (t *transaction) release() error {
	hidden, err := t.guard.Release(t.ctx, t.tx)
	switch {
	case err != nil:
		t.endedEarly = true
		return errEnded
	case !hidden:
		return nil
	}
	return t.ledger.CheckUndone(t.ctx)
}
