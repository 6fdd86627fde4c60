package schedule

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/transition"
)

// Change is a task before and after a transaction.
type Change = transition.Change

// InChangeFunc sees what a transaction did to tasks, in the transaction, so that rows of the service's own change with the tasks. It is
// called once, just before the COMMIT, with one change for each task. Before is the task as it was before the transaction; it is empty
// (its Version is 0) if the transaction has made the task. After is what commits. A spec that is scheduled again shows its task as made
// once more.
//
// It sees the transactions of the process that has it: calls of the client and its Console, a Joined that ends with Commit, and what a
// worker commits: done, failed, snoozed, dead, and the next task of a recurrence. With pkg/embedded it sees operations too. It does not
// see what other programs do: the daemon with its operations, the API, the tool duetime, SQL. Nor does it see a joined transaction that
// ends by other means (Joined.Index), or a purge. The view duetime_pending shows all of that to every query.
//
// An error or a panic rolls the transaction back, and comes out of the call as "InChange: …". An error that IsRetryable runs the
// transaction again, as in InTx. A worker tries the tasks again, each by itself, and charges an attempt after four calls of a handler; that
// charge is a change too. So return an error only for what passes. All that the transaction has locked is locked until InChangeFunc
// returns. It may change tasks through tx; that commits as well, and it is not called for it.
//
// It costs calls of one task (Schedule, Reschedule, Shift, Cancel) a transaction of their own, BEGIN and COMMIT included. Without it
// they are one or two statements, which concurrent callers share.
type InChangeFunc func(ctx context.Context, tx *Tx, changes []Change) error

// OnChangeFunc hears of what InChangeFunc sees, after the commit, as for a cache or a socket. Of a Joined that ends with Index it hears too.
// It is called in a goroutine of its own, so that nobody waits for it, at most once for each commit; commits of several callers may be
// one. Calls may come in another order than the commits: of two, the one with the greater Version is the later. ctx ends after 5 s. A
// panic is logged.
//
// It is never called for what was rolled back, and it may miss a commit: if the process ends; if 1,000 commits wait for a slow function,
// which duetime_changes_dropped_total counts; and if the answer to COMMIT is lost (ErrCommitUnknown), since nobody knows then whether it
// has happened. Of a Joined it leaves out a task that somebody else changes at once. A service that must know reads duetime_pending.
type OnChangeFunc func(ctx context.Context, changes []Change)

// inChange is Config.InChange as the ledger calls it; nil: none.
func (c *Client) inChange() func(context.Context, sqlx.ExtContext, *ledger.Tx, []transition.Change) error {
	if c.cfg.InChange == nil {
		return nil
	}
	return func(ctx context.Context, q sqlx.ExtContext, list *ledger.Tx, changes []transition.Change) error {
		tx := c.begin(q.(*sqlx.Tx)) //nolint:forcetypeassert // All that commit begin one.
		tx.ledger = list
		return tx.run(ctx, func(tx *Tx) error { return c.cfg.InChange(ctx, tx, changes) })
	}
}
