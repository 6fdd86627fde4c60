package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// transactions are what InTx and Join need of the store.
type transactions interface {
	// Begin starts a transaction at READ COMMITTED, which ends with ctx. A transaction that the server has rolled back
	// must refuse every further statement and COMMIT.
	Begin(ctx context.Context) (*sqlx.Tx, error)
	// Retryable reports whether the error says that the transaction did not commit and may do so when run again.
	Retryable(err error) bool
	// Ambiguous reports whether the error of a commit leaves open if it took effect.
	Ambiguous(err error) bool
	// CheckIsolation refuses a session that is not at READ COMMITTED.
	CheckIsolation(ctx context.Context, q sqlx.QueryerContext) error
}

// InTx runs fn in a transaction at READ COMMITTED and commits. The tasks that it touched are put into the index behind the
// caller's back, unless callers in bulk schedule faster than the index accepts: then it waits for room, as IndexTasks does.
// After a deadlock or a lock wait it runs fn again, whole and in a new transaction, so fn must set what it returns afresh
// each time. It returns nil exactly if the transaction committed, whatever became of the index. An error of fn rolls back
// and comes out as it is; so does a panic. After ErrCommitUnknown, fn has run and may have committed; it is never run again
// then: the answer of COMMIT was lost, or one of fn's own statements has ended the transaction. task.ErrRunning comes out at
// once: its try has waited for the lock already.
//
// tx ends with fn, and with ctx.
func (c *Client) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	var last error
	tries := 0
	tx, err := backoff.Retry(ctx, func() (*Tx, error) {
		tries++
		tx, err := c.try(ctx, fn)
		if err != nil {
			last = err
			if !c.mayRetry(err) {
				return nil, backoff.Permanent(err)
			}
		}
		return tx, err
	}, backoff.WithBackOff(jitter()), backoff.WithMaxTries(uint(c.cfg.MaxTries)), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		c.afterCommit(ctx, tx)
		return nil
	case !c.mayRetry(last):
		return last
	case ctx.Err() != nil:
		return fmt.Errorf("transaction given up: %w, after %w", ctx.Err(), last)
	default:
		return &givenUp{tries: tries, cause: last}
	}
}

// mayRetry reports whether the whole transaction may be run once more now.
func (c *Client) mayRetry(err error) bool {
	if errors.Is(err, ErrCommitUnknown) || errors.Is(err, task.ErrRunning) {
		return false
	}
	return IsRetryable(err) || c.store.Retryable(err)
}

// jitter spreads the tries of transactions that met in a deadlock, so that they don't meet again.
func jitter() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 8 * time.Millisecond
	b.RandomizationFactor = 0.9
	b.Multiplier = 2
	b.MaxInterval = 500 * time.Millisecond
	return b
}

// try is one transaction from BEGIN to COMMIT; it returns what committed.
func (c *Client) try(ctx context.Context, fn func(tx *Tx) error) (*Tx, error) {
	began, err := c.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // also when fn panics
			_ = began.Rollback() // the server rolls back by itself when this can't be said
		}
	}()
	tx := c.begin(began)
	if err := c.run(ctx, fn, tx); err != nil {
		return nil, err
	}
	if err := tx.Err(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	ended = true
	return tx, c.readCommit(began.Commit(), tx)
}

// run calls fn, and checks what its statements have left of the transaction.
func (c *Client) run(ctx context.Context, fn func(tx *Tx) error, tx *Tx) error {
	err := fn(tx)
	hidden, ended := tx.watch.Release(ctx, tx.db)
	if ended != nil {
		c.writer.Compensate(tx.Touched())
		return errors.Join(fmt.Errorf("%w: %w", ErrCommitUnknown, ended), err)
	}
	if err != nil || !hidden {
		return err
	}
	return tx.CheckUndone(ctx)
}

// begin makes the Tx of a transaction that has begun.
func (c *Client) begin(began *sqlx.Tx) *Tx {
	tx := NewTx(began, c.store)
	tx.actor, tx.kinds, tx.tracer, tx.before = c.cfg.Actor, c.cfg.Kinds, c.tracer, c.cfg.BeforeSchedule
	return tx
}

// readCommit reads the answer of a COMMIT. After a lost one the daemon is to look at the tasks.
func (c *Client) readCommit(err error, tx *Tx) error {
	if err == nil {
		return nil
	}
	if c.store.Ambiguous(err) {
		c.writer.Compensate(tx.Touched())
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return fmt.Errorf("commit: %w", err)
}

// afterCommit has the touched tasks put into the index, and the lines about them written, behind the caller's back. It waits
// only where callers schedule faster than the index accepts, and after a block.
func (c *Client) afterCommit(ctx context.Context, tx *Tx) {
	c.writer.Enqueue(ctx, tx.Touched())
	c.history.add(tx.actor, tx.Events())
	c.ticks.Count(tx.Ticks())
	c.awaitBlocks(ctx, tx)
}

// awaitBlocks waits until every process refuses tasks of the owners that the transaction has blocked.
func (c *Client) awaitBlocks(ctx context.Context, tx *Tx) {
	if tx.blocks {
		c.store.AwaitBlocks(ctx)
	}
}

// IndexTasks puts tasks whose transaction somebody else committed, and waits for that at most Config.IndexWait, and that again
// for each 100 tasks, with compensation behind it. Before, while callers in bulk schedule faster than the index accepts, it
// waits for room: at most IndexWait, and that again for each 10 tasks. It is for our own worker and commands.
func (c *Client) IndexTasks(ctx context.Context, tasks []task.Task) { c.writer.PutAndWait(ctx, tasks) }

// CompensateTasks has the daemon look at tasks of which nobody knows whether the transaction that changed them has committed.
// It never waits. It is for our own commands.
func (c *Client) CompensateTasks(tasks []task.Task) { c.writer.Compensate(tasks) }

// inTx returns what fn returned in the transaction that committed.
func inTx[T any](ctx context.Context, c *Client, fn func(tx *Tx) (T, error)) (T, error) {
	var out, none T
	err := c.InTx(ctx, func(tx *Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}
