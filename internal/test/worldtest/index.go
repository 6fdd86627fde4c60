package worldtest

import (
	"context"
	"slices"
	"sync"

	"github.com/duetime/duetime/pkg/task"
)

// Nowhere is an index and a stream that store nothing: what is listed comes from the database.
type Nowhere struct{}

// Put forgets the tasks.
func (Nowhere) Put(context.Context, []task.Task) error { return nil }

// OwnerPage answers as an index that has lost its memory.
func (Nowhere) OwnerPage(context.Context, int, string, string, string, int) ([]task.Entry, string, string, error) {
	return nil, "", "", nil
}

// Compensate forgets the request.
func (Nowhere) Compensate(context.Context, task.Compensation) error { return nil }

// Bury forgets the letters.
func (Nowhere) Bury(context.Context, []task.DeadLetter) error { return nil }

// Recorder is an index that remembers what is put, and has no memory for lists.
type Recorder struct {
	Nowhere
	mu   sync.Mutex
	puts []task.Task
}

// Put remembers the tasks.
func (r *Recorder) Put(_ context.Context, tasks []task.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, tasks...)
	return nil
}

// Puts returns all that was put, in order.
func (r *Recorder) Puts() []task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.puts)
}

// PutsOf returns what was put of one task, in order.
func (r *Recorder) PutsOf(id task.ID) []task.Task {
	return slices.DeleteFunc(r.Puts(), func(t task.Task) bool { return t.ID != id })
}
