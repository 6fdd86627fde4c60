package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Run runs fn in a transaction at READ COMMITTED, commits, and follows. fn returns the list of what it did, also with an error. After a
// deadlock or a lock wait Run runs fn again, in a new transaction, up to maxTries times; task.ErrRunning comes out at once: its
// try has waited for the lock already. Run returns nil exactly if the transaction committed. An error or a panic of fn rolls back.
// After ErrCommitUnknown, also that of fn, the transaction may have committed.
func (l *Ledger) Run(ctx context.Context, fn func(began *sqlx.Tx) (*Tx, error)) error {
	var last error
	tries := 0
	tx, err := backoff.Retry(ctx, func() (*Tx, error) {
		tries++
		tx, err := l.try(ctx, fn)
		if err != nil {
			last = err
			if !l.mayRetry(err) {
				return nil, backoff.Permanent(err)
			}
		}
		return tx, err
	}, backoff.WithBackOff(jitter()), backoff.WithMaxTries(uint(l.maxTries)), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		l.Follow(ctx, tx)
		return nil
	case !l.mayRetry(last):
		return last
	case ctx.Err() != nil:
		return fmt.Errorf("transaction given up: %w, after %w", ctx.Err(), last)
	default:
		return &givenUp{tries: tries, cause: last}
	}
}

// RunOnce is Run with one try, for changes of several callers who wait for their puts: see indexwriter.PutDirectly.
func (l *Ledger) RunOnce(ctx context.Context, fn func(began *sqlx.Tx) (*Tx, error)) error {
	tx, err := l.try(ctx, fn)
	if err == nil {
		l.writer.PutDirectly(ctx, tx.Touched(0))
		l.record(ctx, tx)
	}
	return err
}

// mayRetry reports whether the whole transaction may be run once more now.
func (l *Ledger) mayRetry(err error) bool {
	if errors.Is(err, ErrCommitUnknown) || errors.Is(err, task.ErrRunning) {
		return false
	}
	return IsRetryable(err) || l.store.Retryable(err)
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

// try is one transaction; it returns what committed.
func (l *Ledger) try(ctx context.Context, fn func(began *sqlx.Tx) (*Tx, error)) (*Tx, error) {
	tx, err := Transact(ctx, l.store, l.hooks, fn)
	if errors.Is(err, ErrCommitUnknown) {
		l.Unknown(tx)
	}
	return tx, err
}

// ReadCommit reads the answer of a COMMIT that somebody else has sent.
func (l *Ledger) ReadCommit(err error, tx *Tx) error {
	if err = readCommit(l.store, err); errors.Is(err, ErrCommitUnknown) {
		l.Unknown(tx)
	}
	return err
}
