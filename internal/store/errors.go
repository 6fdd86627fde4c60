package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

// ErrNoSchema says that the schema has no tables or no layout of duetime: migrate has not run.
var ErrNoSchema = errors.New("duetime's tables are missing, run duetime migrate up")

// ErrOldSchema says that an older version made the schema.
var ErrOldSchema = errors.New("duetime's tables are older than this program, run duetime migrate up")

// ErrNamespace says that the schema belongs to another namespace.
var ErrNamespace = errors.New("schema belongs to another namespace")

// ErrSchema says that a transaction is in another schema than duetime's tables.
var ErrSchema = errors.New("transaction is in another schema")

// ErrConflict matches the error of a write whose rows have changed since the caller read them. The transaction must be
// rolled back; it may be tried again.
var ErrConflict = errors.New("task changed in between")

// conflictError is ErrConflict with its numbers.
type conflictError struct{ got, want int64 }

func (e *conflictError) Error() string {
	return fmt.Sprintf("%v: %d of %d rows were as read", ErrConflict, e.got, e.want)
}
func (e *conflictError) Unwrap() error   { return ErrConflict }
func (e *conflictError) Retryable() bool { return true }

// ErrPoisoned matches every error of a statement or COMMIT that was refused because its transaction had been lost before.
// Nothing of the transaction is committed.
var ErrPoisoned = errors.New("transaction was lost")

// PoisonedError refuses a statement; it unwraps to ErrPoisoned and to the error that lost the transaction.
type PoisonedError struct {
	Cause error
}

// Error names the cause.
func (e *PoisonedError) Error() string { return fmt.Sprintf("%v before: %v", ErrPoisoned, e.Cause) }

// Unwrap returns ErrPoisoned and the cause.
func (e *PoisonedError) Unwrap() []error { return []error{ErrPoisoned, e.Cause} }

// Retryable is false if a context cut the transaction off, or if the disk is full: a retry would fail in the same way.
func (e *PoisonedError) Retryable() bool { return !isContext(e.Cause) && classOf(e.Cause) != Full }

// ambiguousError marks the error of a COMMIT, or of an autocommit statement, that was sent and may have taken effect.
type ambiguousError struct{ cause error }

func (e *ambiguousError) Error() string { return "commit without a clear answer: " + e.cause.Error() }
func (e *ambiguousError) Unwrap() error { return e.cause }

// closed adds task.ErrClosed to the error of a closed handle: database/sql has only a text for it, and sends nothing
// then.
func closed(err error) error {
	if err == nil || !strings.Contains(err.Error(), "sql: database is closed") {
		return err
	}
	return fmt.Errorf("%w: %w", task.ErrClosed, err)
}
