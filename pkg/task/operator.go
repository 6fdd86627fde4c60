package task

import "errors"

// ErrNotDead answers the retry or an operator's discard of a task that waits for its run.
var ErrNotDead = errors.New("task is pending, not dead")

// ErrKeyTaken answers the retry of a task whose key another task has taken since it died.
var ErrKeyTaken = errors.New("another task has its key")
