package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

// ErrNoSchema says that the schema has no tables of ours yet, or no layout: migrate first.
var ErrNoSchema = errors.New("duetime's tables are missing, run duetime migrate up")

// ErrOldSchema matches the answer for a schema that was made by an older version than this one.
var ErrOldSchema = errors.New("duetime's tables are older than this program, run duetime migrate up")

// ErrNamespace says that the schema belongs to another namespace.
var ErrNamespace = errors.New("schema belongs to another namespace")

// ErrSchema matches the answer for a transaction in another schema than that of duetime's tables.
var ErrSchema = errors.New("transaction is in another schema")

// ErrConflict matches the answer to a write over rows that are not as the caller read them. The transaction must be
// rolled back; it may be tried again.
var ErrConflict = errors.New("task changed in between")

// conflictError is ErrConflict with its numbers.
type conflictError struct{ got, want int64 }

func (e *conflictError) Error() string {
	return fmt.Sprintf("%v: %d of %d rows were as read", ErrConflict, e.got, e.want)
}
func (e *conflictError) Unwrap() error   { return ErrConflict }
func (e *conflictError) Retryable() bool { return true }

// ErrPoisoned matches every error of a statement or COMMIT that was refused because its transaction had been lost
// before. Nothing of the transaction is committed.
var ErrPoisoned = errors.New("transaction was lost")

// PoisonedError is the refusal; it unwraps to ErrPoisoned and to the error that lost the transaction.
type PoisonedError struct {
	Cause error
}

// Error names the cause.
func (e *PoisonedError) Error() string { return fmt.Sprintf("%v before: %v", ErrPoisoned, e.Cause) }

// Unwrap returns ErrPoisoned and the cause.
func (e *PoisonedError) Unwrap() []error { return []error{ErrPoisoned, e.Cause} }

// Retryable is true unless a context cut the transaction off, or the disk is full: the same work would end so again.
func (e *PoisonedError) Retryable() bool { return !isContext(e.Cause) && classOf(e.Cause) != Full }

// ambiguousError marks the error of a COMMIT, or of an autocommit statement, that was sent and not clearly refused.
type ambiguousError struct{ cause error }

func (e *ambiguousError) Error() string { return "commit without a clear answer: " + e.cause.Error() }
func (e *ambiguousError) Unwrap() error { return e.cause }

// closed names the error of a handle that was closed before anything was sent: database/sql has only a text for it.
func closed(err error) error {
	if err == nil || !strings.Contains(err.Error(), "sql: database is closed") {
		return err
	}
	return fmt.Errorf("%w: %w", task.ErrClosed, err)
}
