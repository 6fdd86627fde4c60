package transition

import "github.com/duetime/duetime/pkg/task"

// finished returns the error that answers a change of a task in this state; nil while it is pending.
func finished(s task.State) error {
	switch s {
	case task.Pending:
		return nil
	case task.Done:
		return task.ErrAlreadyDone
	case task.Cancelled:
		return task.ErrAlreadyCancelled
	default:
		return task.ErrAlreadyDead
	}
}
