package schedule

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/statement"
)

// SQLTx is the caller's own transaction: a *sql.Tx, or one of a library that holds a *sql.Tx. See Client.Join.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// Names of the savepoints that show whether the transaction still stands; see the package's account of deadlocks.
const (
	savepointJoined = "duetime_joined" // stays from the first use to the commit
	savepointOpen   = "duetime_open"   // set and released before each later change
)

// Joined is a Tx on the caller's own transaction. End it with Commit, or commit by other means and call Index; to roll
// back, roll back the caller's transaction. It is for one goroutine at a time.
//
// Its session must be at READ COMMITTED: at any other isolation the first change answers an error, since a list of what is to
// be changed would miss what was committed since the transaction's first read. The server tells the session's level, not one that
// was set for a single transaction, as by sql.TxOptions. Set an innodb_lock_wait_timeout of a few seconds too: a change waits
// that long for a task that is being run.
type Joined struct {
	*Tx
	client *Client
	raw    SQLTx // what ends the transaction; nil where there is none
	checks int   // that the transaction is open: one before each change, or more
}

// Join takes part in a transaction that the caller began on its own handle, in the schema that holds duetime's tables.
// Nothing happens until the first change, which sets a savepoint.
//
// The transaction is a *sql.Tx, a *sqlx.Tx, a bun.Tx, or what GORM has as Statement.ConnPool within a transaction, with
// prepared statements or without: any type whose exported field Tx holds one of these. With everything else, a handle
// outside of a transaction included, each call of the Joined answers an error that names the type; nothing is changed, and
// what the caller has begun is the caller's to roll back.
func (c *Client) Join(tx Joinable) *Joined {
	j := &Joined{client: c}
	own, mapper, err := unwrap(tx)
	if err != nil {
		refusal := newRefusal(err)
		j.Tx = &Tx{db: refusal, rows: c.store, ledger: ledger.NewTx(refusal, c.store, c.cfg.Actor)}
		_ = j.ledger.Fail(err)
		return j
	}
	j.Tx = c.begin(&sqlx.Tx{Tx: own, Mapper: mapper})
	if j.raw, _ = tx.(SQLTx); j.raw == nil {
		j.raw = own
	}
	j.guard = j.checkOpen
	j.ledger.CountAtOnce()
	return j
}

// checkOpen checks before each change that the transaction wasn't rolled back behind our back: a change would commit by
// itself then, without the rest.
func (j *Joined) checkOpen(ctx context.Context) error {
	j.checks++
	if j.checks == 1 {
		if err := j.client.store.CheckIsolation(ctx, j.db); err != nil {
			return err
		}
		if _, err := j.db.ExecContext(ctx, "SAVEPOINT "+savepointJoined); err != nil {
			return fmt.Errorf("set savepoint: %w", err)
		}
		return j.ofSavepoint(ctx, "ROLLBACK TO SAVEPOINT "+savepointJoined) // which undoes nothing, and costs a round trip less
	}
	if _, err := j.db.ExecContext(ctx, "SAVEPOINT "+savepointOpen); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	return j.ofSavepoint(ctx, "RELEASE SAVEPOINT "+savepointOpen)
}

// ofSavepoint runs a statement that fails where the savepoint is gone, and with it the transaction.
func (j *Joined) ofSavepoint(ctx context.Context, text string) error {
	_, err := j.db.ExecContext(ctx, text)
	if err == nil {
		return nil
	}
	if statement.NoSavepoint(err) {
		return fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	return fmt.Errorf("%s: %w", text, err)
}

// Commit commits the caller's transaction and has the touched tasks put into the index, as InTx does. After more than one
// change it first reads the rows as they are committed, because the caller may have rolled back to a savepoint.
// Where the server has rolled the transaction back, or one of the changes failed in a way that ends it, Commit rolls back
// and returns an error; see IsRetryable. The transaction is over in every case.
func (j *Joined) Commit(ctx context.Context) error {
	if err := j.checkWhole(ctx); err != nil {
		if j.raw != nil {
			_ = j.raw.Rollback() // the error before says more
		}
		return fmt.Errorf("commit: %w", err)
	}
	if err := j.client.ledger.ReadCommit(j.raw.Commit(), j.ledger); err != nil {
		return err
	}
	if j.checks <= 1 || len(j.ledger.Touched(0)) == 0 {
		// A ROLLBACK TO that undoes the only change also removes savepointJoined, which was set just before it.
		j.client.ledger.Hooks().Committed(j.ledger)
		j.client.ledger.Follow(ctx, j.ledger)
	} else {
		j.client.ledger.FollowCommitted(ctx, j.ledger, false)
	}
	j.client.awaitBlocks(ctx, j.Tx)
	return nil
}

// checkWhole refuses a COMMIT that would not commit all that was done here.
func (j *Joined) checkWhole(ctx context.Context) error {
	if err := j.ledger.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.checks == 0 {
		return nil
	}
	if err := j.client.ledger.BeforeJoined(ctx, j.ledger); err != nil {
		return err
	}
	return j.ofSavepoint(ctx, "RELEASE SAVEPOINT "+savepointJoined)
}

// Index puts the touched tasks into the index after somebody else (a framework) has committed the transaction. It reads
// the rows as they are committed, so that nothing is put of what was rolled back, by the server or to a savepoint of the
// caller's. Where the rows can't be read they go to compensation, and the answer is nil: the index never decides anything.
//
// It returns ErrRolledBack if none of the changes stands. That is not retryable here, other than from Commit: a transaction
// whose every change was rolled back to a savepoint has committed the rest, which a retry would do twice. Whoever wants to
// retry looks first for something else that the transaction wrote.
func (j *Joined) Index(ctx context.Context) error {
	touched := j.ledger.Touched(0)
	if len(touched) == 0 {
		return nil
	}
	stands := j.client.ledger.FollowCommitted(ctx, j.ledger, true)
	j.client.awaitBlocks(ctx, j.Tx)
	if !stands {
		return fmt.Errorf("index task %s and %d more: %w", touched[0].ID, len(touched)-1, ledger.ErrNothingStands)
	}
	return nil
}
