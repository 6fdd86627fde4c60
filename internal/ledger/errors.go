package ledger

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/pkg/task"
)

// Errors that package schedule gives to services; it documents them.
var (
	ErrCommitUnknown = errors.New("commit sent, its answer lost")
	ErrUnfollowed    = errors.New("a statement has undone changes of tasks unseen")
	ErrRolledBack    = errors.New("transaction was rolled back by the server")
)

// ErrNothingStands is ErrRolledBack of a transaction that somebody else has committed, so nobody knows whether the rest of it stands.
// It is not retryable.
var ErrNothingStands = fmt.Errorf("none of its changes is committed: %w", ErrRolledBack)

// Error numbers of MySQL and MariaDB, for handles that the store doesn't wrap.
const (
	mysqlChanged  = 1020 // the record changed since the transaction's snapshot
	mysqlLockWait = 1205
	mysqlDeadlock = 1213
)

// IsRetryable reports whether the whole transaction may be run again: see schedule.IsRetryable.
func IsRetryable(err error) bool {
	if errors.Is(err, ErrCommitUnknown) || errors.Is(err, ErrNothingStands) {
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

// AsRunning turns a lock wait on a task's row into the answer that the task is being run.
func AsRunning(err error) error {
	if mysqlNumber(err) == mysqlLockWait {
		return fmt.Errorf("%w: %w", task.ErrRunning, err)
	}
	return err
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
