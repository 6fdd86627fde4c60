package transition

import "github.com/duetime/duetime/pkg/task"

// Change is a task before and after a transition; Before is empty if there was no task.
type Change struct{ Before, After task.Task }

// BeforeOf returns the tasks as they were.
func BeforeOf(changes []Change) []task.Task {
	return of(changes, func(c Change) task.Task { return c.Before })
}

func of(changes []Change, which func(Change) task.Task) []task.Task {
	all := make([]task.Task, len(changes))
	for i, c := range changes {
		all[i] = which(c)
	}
	return all
}
