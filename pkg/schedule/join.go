package schedule

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
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
	savepointOpen   = "duetime_open"   // set and released before each change
)

// Joined is a Tx on the caller's own transaction. End it with Commit, or commit by other means and call Index; to roll
// back, roll back the caller's transaction. It is for one goroutine at a time.
//
// Its session should be READ COMMITTED with an innodb_lock_wait_timeout of a few seconds: the wait for a task that is
// being run is that of the session.
type Joined struct {
	*Tx
	client *Client
	raw    SQLTx // what ends the transaction; nil where there is none
	used   bool
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
		j.Tx = &Tx{db: newRefusal(err), rows: c.store, err: err}
		return j
	}
	j.Tx = c.begin(&sqlx.Tx{Tx: own, Mapper: mapper})
	if j.raw, _ = tx.(SQLTx); j.raw == nil {
		j.raw = own
	}
	j.guard = j.checkOpen
	return j
}

// checkOpen checks before each change that the transaction wasn't rolled back behind our back: a change would commit by
// itself then, without the rest.
func (j *Joined) checkOpen(ctx context.Context) error {
	if !j.used {
		if _, err := j.db.ExecContext(ctx, "SAVEPOINT "+savepointJoined); err != nil {
			return fmt.Errorf("set savepoint: %w", err)
		}
		j.used = true
	}
	if _, err := j.db.ExecContext(ctx, "SAVEPOINT "+savepointOpen); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	return j.release(ctx, savepointOpen)
}

func (j *Joined) release(ctx context.Context, name string) error {
	_, err := j.db.ExecContext(ctx, "RELEASE SAVEPOINT "+name)
	if err == nil {
		return nil
	}
	if mysqlNumber(err) == mysqlSavepoint || strings.Contains(err.Error(), "no such savepoint") {
		return fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	return fmt.Errorf("release savepoint: %w", err)
}

// Commit commits the caller's transaction and has the touched tasks put into the index, as InTx does.
// Where the server has rolled the transaction back, or one of the changes failed in a way that ends it, Commit rolls back
// and returns an error; see IsRetryable. The transaction is over in every case.
func (j *Joined) Commit(ctx context.Context) error {
	if err := j.checkWhole(ctx); err != nil {
		if j.raw != nil {
			_ = j.raw.Rollback() // the error before says more
		}
		return fmt.Errorf("commit: %w", err)
	}
	if err := j.client.readCommit(j.raw.Commit(), j.Tx); err != nil {
		return err
	}
	j.client.afterCommit(ctx, j.Tx)
	return nil
}

// checkWhole refuses a COMMIT that would not commit all that was done here.
func (j *Joined) checkWhole(ctx context.Context) error {
	if err := j.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !j.used {
		return nil
	}
	return j.release(ctx, savepointJoined)
}

// Index puts the touched tasks into the index after somebody else (a framework) has committed the transaction. It reads
// the rows as they are committed, so that nothing is put of what was rolled back, by the server or to a savepoint of the
// caller's. Where the rows can't be read they go to compensation, and the answer is nil: the index never decides anything.
//
// It returns ErrRolledBack if none of the changes stands. That is not retryable here, other than from Commit: a transaction
// whose every change was rolled back to a savepoint has committed the rest, which a retry would do twice. Whoever wants to
// retry looks first for something else that the transaction wrote.
func (j *Joined) Index(ctx context.Context) error {
	touched := j.Touched()
	ids := make([]task.ID, len(touched))
	for i, t := range touched {
		ids[i] = t.ID
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := j.client.store.Get(ctx, nil, ids)
	if err != nil {
		j.client.writer.Compensate(touched)
		return nil //nolint:nilerr // the daemon reads them
	}
	j.client.writer.PutAndWait(ctx, rows)
	standing := byID(rows)
	stands := func(t task.Task) bool { return standing[t.ID].Version >= t.Version }
	if !slices.ContainsFunc(j.written, stands) {
		return fmt.Errorf("index task %s and %d more: %w", touched[0].ID, len(touched)-1, errNothingStands)
	}
	for _, t := range touched {
		if !stands(t) { // rolled back to a savepoint: the lines about the task may tell what never was
			delete(standing, t.ID)
		}
	}
	j.client.history.add(j.actor, slices.DeleteFunc(slices.Clone(j.Events()), func(e task.Event) bool {
		_, ok := standing[e.Task]
		return !ok
	}))
	return nil
}

// errNothingStands is ErrRolledBack from Index, which can't tell whether the rest of the transaction was committed.
var errNothingStands = fmt.Errorf("none of its changes is committed: %w", ErrRolledBack)
