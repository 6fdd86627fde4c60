package task

import "errors"

// Transitions that only an operator makes, or that a policy makes instead of a run.

// ErrNotDead answers the retry or the dismissal of a task that waits for its run.
var ErrNotDead = errors.New("task is pending, not dead")

// ErrKeyTaken answers the retry of a task whose key another task has taken since it died.
var ErrKeyTaken = errors.New("another task has its key")
