package schedule

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/statement"
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
	if err := j.client.readCommit(j.raw.Commit(), j.Tx); err != nil {
		return err
	}
	touched := j.Touched()
	if j.checks <= 1 || len(touched) == 0 {
		// A ROLLBACK TO that undoes the only change also removes savepointJoined, which was set just before it.
		j.client.afterCommit(ctx, j.Tx)
		return nil
	}
	j.indexCommitted(ctx, touched, j.client.writer.Enqueue)
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
	if j.checks == 0 {
		return nil
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
	touched := j.Touched()
	if len(touched) == 0 || j.indexCommitted(ctx, touched, j.client.writer.PutAndWait) {
		return nil
	}
	return fmt.Errorf("index task %s and %d more: %w", touched[0].ID, len(touched)-1, errNothingStands)
}

// indexCommitted reads the rows of the touched tasks, puts them, and writes the lines about what is committed. It returns
// false if none of the changes is committed. If the rows can't be read, the tasks go to compensation, and the answer is true.
func (j *Joined) indexCommitted(ctx context.Context, touched []task.Task, put func(context.Context, []task.Task)) bool {
	j.client.awaitBlocks(ctx, j.Tx)
	ids := make([]task.ID, len(touched))
	for i, t := range touched {
		ids[i] = t.ID
	}
	rows, err := j.client.store.Get(ctx, nil, ids)
	if err != nil {
		j.client.writer.Compensate(touched) // the daemon reads the rows
		return true
	}
	put(ctx, rows)
	committed := byID(rows)
	if !slices.ContainsFunc(j.written, func(t task.Task) bool { return committed[t.ID].Version >= t.Version }) {
		return false
	}
	j.addCommitted(committed)
	return true
}

// addCommitted writes the lines and counts the ticks. If a change was rolled back to a savepoint, it writes only lines about
// tasks whose changes are all committed: the other lines may tell of changes that never were.
func (j *Joined) addCommitted(committed map[task.ID]task.Task) {
	undone := j.undone(committed)
	if len(undone) == 0 {
		j.client.history.add(j.actor, j.Events())
		j.client.ticks.Count(j.Ticks())
		return
	}
	j.client.history.add(j.actor, slices.DeleteFunc(slices.Clone(j.Events()), func(e task.Event) bool {
		_, found := committed[e.Task]
		return !found || undone[e.Task]
	}))
}

// undone returns the tasks with a version that was taken back: the committed row is older, or the version was written twice.
// A new row is no change: scheduling the same Spec again finds version 1 once more.
func (j *Joined) undone(committed map[task.ID]task.Task) map[task.ID]bool {
	undone, newest := map[task.ID]bool{}, map[task.ID]int64{}
	for _, t := range j.written {
		if t.Version > committed[t.ID].Version || t.Version > 1 && t.Version <= newest[t.ID] {
			undone[t.ID] = true
		}
		newest[t.ID] = max(newest[t.ID], t.Version)
	}
	return undone
}

// errNothingStands is ErrRolledBack from Index, which can't tell whether the rest of the transaction was committed.
var errNothingStands = fmt.Errorf("none of its changes is committed: %w", ErrRolledBack)
