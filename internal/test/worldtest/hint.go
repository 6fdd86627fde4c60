package worldtest

import (
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Entries returns what the index holds of pending tasks.
func Entries(tasks ...task.Task) []protocol.Entry {
	entries := make([]protocol.Entry, len(tasks))
	for i, t := range tasks {
		entries[i] = protocol.Entry{ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, OrderKey: t.OrderKey, Score: protocol.ScoreOf(t)}
	}
	return entries
}

// Hints returns what workers are told of tasks that are due.
func Hints(tasks ...task.Task) []protocol.Hint {
	hints := make([]protocol.Hint, len(tasks))
	for i, t := range tasks {
		hints[i] = protocol.Hint{ID: t.ID, Kind: t.Kind, Owner: protocol.Route(t.Owner, t.OrderKey), RunAt: t.RunAt.UnixMilli(), Version: t.Version}
	}
	return hints
}
