package task

// Change is a task before and after a transition; Before is empty if there was no task.
type Change struct{ Before, After Task }

// BeforeOf returns the tasks as they were.
func BeforeOf(changes []Change) []Task { return of(changes, func(c Change) Task { return c.Before }) }

// AfterOf returns the tasks as they are.
func AfterOf(changes []Change) []Task { return of(changes, func(c Change) Task { return c.After }) }

func of(changes []Change, which func(Change) Task) []Task {
	all := make([]Task, len(changes))
	for i, c := range changes {
		all[i] = which(c)
	}
	return all
}
