package schedule

import "github.com/duetime/duetime/internal/ledger"

var (
	// ErrCommitUnknown says that COMMIT was sent and its answer was lost, or that a statement of the service's own has ended the
	// transaction: it may have committed or not.
	// It is not retryable: look for what the transaction wrote (an operation key, a task's id) before repeating it.
	ErrCommitUnknown = ledger.ErrCommitUnknown
	// ErrUnfollowed says that changes of tasks in this transaction were undone by a statement that duetime could not follow.
	// Nothing was committed. It is not retryable: send SAVEPOINT and ROLLBACK TO by themselves, through Tx.ExecContext.
	ErrUnfollowed = ledger.ErrUnfollowed
	// ErrRolledBack says that the server had rolled the joined transaction back, as after a deadlock whose error was
	// passed over: nothing was committed. It is retryable, as a whole new transaction, but for the one that Index returns.
	ErrRolledBack = ledger.ErrRolledBack
)

// errMovedOn says that a recurrence has made another task since it was read.
var errMovedOn error = retryable("recurrence has changed in between")

// errOtherName says that another transaction has made a task with the key under another name of the kind (task.Was).
var errOtherName error = retryable("the key was taken under another name of the kind in between")

type retryable string

func (e retryable) Error() string { return string(e) }

// Retryable tells IsRetryable that the whole transaction may be run once more.
func (e retryable) Retryable() bool { return true }

// IsRetryable reports whether the whole transaction may be run again: nothing of it was committed, and the cause is one
// that passes (a deadlock, a lock wait, a running task, a change by somebody else in between). After ErrCommitUnknown it
// is false, and so it is while the database can't be reached: that is for Unavailable of the client to say.
func IsRetryable(err error) bool { return ledger.IsRetryable(err) }
