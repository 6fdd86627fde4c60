package schedule

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/pkg/task"
)

var (
	// ErrCommitUnknown says that COMMIT was sent and its answer was lost, or that a statement of the service's own has ended the
	// transaction: it may have committed or not.
	// It is not retryable: look for what the transaction wrote (an operation key, a task's id) before repeating it.
	ErrCommitUnknown = errors.New("commit sent, its answer lost")
	// ErrUnfollowed says that changes of tasks in this transaction were undone by a statement that duetime could not follow.
	// Nothing was committed. It is not retryable: send SAVEPOINT and ROLLBACK TO by themselves, through Tx.ExecContext.
	ErrUnfollowed = errors.New("a statement has undone changes of tasks unseen")
	// ErrRolledBack says that the server had rolled the joined transaction back, as after a deadlock whose error was
	// passed over: nothing was committed. It is retryable, as a whole new transaction, but for the one that Index returns.
	ErrRolledBack = errors.New("transaction was rolled back by the server")
)

// errMovedOn says that a recurrence has made another task since it was read.
var errMovedOn error = retryable("recurrence has changed in between")

type retryable string

func (e retryable) Error() string { return string(e) }

// Retryable tells IsRetryable that the whole transaction may be run once more.
func (e retryable) Retryable() bool { return true }

// Error numbers of MySQL and MariaDB that this package branches on, for handles that the store doesn't wrap.
const (
	mysqlChanged  = 1020 // the record changed since the transaction's snapshot
	mysqlLockWait = 1205
	mysqlDeadlock = 1213
)

// IsRetryable reports whether the whole transaction may be run again: nothing of it was committed, and the cause is one
// that passes (a deadlock, a lock wait, a running task, a change by somebody else in between). After ErrCommitUnknown it
// is false, and so it is while the database can't be reached: that is for Unavailable of the client to say.
func IsRetryable(err error) bool {
	if errors.Is(err, ErrCommitUnknown) || errors.Is(err, errNothingStands) {
		return false
	}
	if errors.Is(err, task.ErrRunning) || errors.Is(err, ErrRolledBack) {
		return true
	}
	switch mysqlNumber(err) {
	case mysqlChanged, mysqlLockWait, mysqlDeadlock:
		return true
	}
	var r interface{ Retryable() bool }
	return errors.As(err, &r) && r.Retryable()
}

func mysqlNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// givenUp is the last error of a transaction that was tried often enough. It stays retryable, even where only the store
// could tell that its cause is.
type givenUp struct {
	tries int
	cause error
}

func (e *givenUp) Error() string {
	return fmt.Sprintf("transaction given up after %d tries: %v", e.tries, e.cause)
}

func (e *givenUp) Unwrap() error { return e.cause }

// Retryable tells IsRetryable that trying again later may help.
func (e *givenUp) Retryable() bool { return true }

// asRunning turns a lock wait on a task's row into the answer that the task is being run.
func asRunning(err error) error {
	if mysqlNumber(err) == mysqlLockWait {
		return fmt.Errorf("%w: %w", task.ErrRunning, err)
	}
	return err
}
