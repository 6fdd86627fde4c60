package ledger

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Transactions are what Transact needs of the store.
type Transactions interface {
	// Begin starts a transaction at READ COMMITTED, which ends with ctx. A transaction that the server has rolled back
	// must refuse every further statement and COMMIT.
	Begin(ctx context.Context) (*sqlx.Tx, error)
	// Ambiguous reports whether the error of a commit leaves open if it took effect.
	Ambiguous(err error) bool
}

// Transact is one transaction from BEGIN to COMMIT: nothing else commits tasks' rows. fn returns the list of what it did, also with an
// error, after which the transaction is rolled back; so it is after a panic. Transact returns nil exactly if the transaction
// committed: what follows is the caller's, and is read from the list. After ErrCommitUnknown it may have committed. The hooks see what is
// about to commit, and what has.
func Transact(ctx context.Context, store Transactions, hooks *Hooks, fn func(began *sqlx.Tx) (*Tx, error)) (tx *Tx, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a transaction whose connection somebody keeps busy: see LeaveBusy
	began, err := store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended && !tx.leftBusy() {
			_ = began.Rollback() // the server rolls back by itself when this can't be said
		}
	}()
	if tx, err = fn(began); err != nil {
		return tx, err
	}
	if err := tx.Err(); err != nil {
		return tx, fmt.Errorf("commit: %w", err)
	}
	if err := tx.CountGroups(ctx); err != nil {
		return tx, err
	}
	if err := hooks.before(ctx, tx); err != nil {
		return tx, err
	}
	if err := tx.CountGroups(ctx); err != nil { // of what InChange has done
		return tx, err
	}
	if err := ctx.Err(); err != nil {
		return tx, fmt.Errorf("commit: %w", err)
	}
	ended = true
	if err := readCommit(store, began.Commit()); err != nil {
		return tx, err
	}
	hooks.Committed(tx)
	return tx, nil
}

func readCommit(store Transactions, err error) error {
	switch {
	case err == nil:
		return nil
	case store.Ambiguous(err):
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	default:
		return fmt.Errorf("commit: %w", err)
	}
}
