package protocol

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/duetime/duetime/pkg/task"
)

// IDFromBytes reads the 16-byte form that MySQL and the index hold.
func IDFromBytes(b []byte) (task.ID, error) {
	u, err := uuid.FromBytes(b)
	if err != nil {
		return task.ID{}, fmt.Errorf("task id of %d bytes: %w", len(b), err)
	}
	return task.ID(u), nil
}

// IDs returns the tasks' ids, in their order.
func IDs(tasks []task.Task) []task.ID {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// ByID returns the tasks by their ids.
func ByID(tasks []task.Task) map[task.ID]task.Task {
	found := make(map[task.ID]task.Task, len(tasks))
	for _, t := range tasks {
		found[t.ID] = t
	}
	return found
}
