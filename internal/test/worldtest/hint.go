package worldtest

import "github.com/duetime/duetime/pkg/task"

// Entries returns what the index holds of pending tasks.
func Entries(tasks ...task.Task) []task.Entry {
	entries := make([]task.Entry, len(tasks))
	for i, t := range tasks {
		entries[i] = task.Entry{ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, Score: task.ScoreOf(t)}
	}
	return entries
}

// Hints returns what workers are told of tasks that are due.
func Hints(tasks ...task.Task) []task.Hint {
	hints := make([]task.Hint, len(tasks))
	for i, t := range tasks {
		hints[i] = task.Hint{ID: t.ID, Kind: t.Kind, Owner: t.Owner, RunAt: t.RunAt.UnixMilli(), Version: t.Version}
	}
	return hints
}
