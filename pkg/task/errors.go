package task

import (
	"errors"
	"fmt"
)

// Sentinels on which callers branch with errors.Is.
var (
	// ErrNotFound says that no task has this id (or it was purged after its retention).
	ErrNotFound = errors.New("task not found")
	// ErrClosed says that the client, or the handle on the database under it, was closed before: nothing was done.
	ErrClosed = errors.New("client is closed")
	// ErrFinished is what ErrAlreadyDone, ErrAlreadyCancelled and ErrAlreadyDead have in common: the task has ended
	// and can't be changed.
	ErrFinished = errors.New("task already finished")
	// ErrAlreadyDone says that the task's effect has committed.
	ErrAlreadyDone = fmt.Errorf("%w: already done", ErrFinished)
	// ErrAlreadyCancelled says that the task was cancelled before.
	ErrAlreadyCancelled = fmt.Errorf("%w: already cancelled", ErrFinished)
	// ErrAlreadyDead says that the task used up its attempts or was discarded.
	ErrAlreadyDead = fmt.Errorf("%w: already dead", ErrFinished)
	// ErrRunning says that somebody works on the task right now, a handler or another transaction; try again in a second.
	ErrRunning = errors.New("task is running, try again")
	// ErrDue says that the task's time has come: it can't be put off any more, though its effect may not have committed yet.
	ErrDue = errors.New("task is due")
	// ErrUnmet says that a change's condition is not met: nothing was changed.
	ErrUnmet = errors.New("condition is not met")
	// ErrOwnerBlocked says that the owner is blocked, so that no task is made for the owner: nothing was changed.
	ErrOwnerBlocked = errors.New("owner is blocked")
)

// FieldError says which field of the input broke which limit. Nothing was changed.
type FieldError struct {
	Field   string // the field as the caller knows it: owner, kind, payload, …
	Problem string // the limit that it broke
}

// Error names the field and the limit.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }
