// Package kinds says which kinds a process may schedule and handle.
package kinds

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/duetime/duetime/pkg/task"
)

// Kinds says which kinds a process may schedule and handle: those of the configuration's queues, and one of each name. A
// task of another queue would wait for ever, since nobody reads its hints; so would one whose handler, of the same name,
// reads another queue. A nil Kinds takes all. It is safe for concurrent use. Our own wiring makes it,
// of the configuration.
type Kinds struct {
	mu      sync.RWMutex
	queues  []string          // nil: any
	handled map[string]string // the queue from which a kind's handler takes its tasks
}

// New makes one for these queues; nil queues are any.
func New(queues []string) *Kinds {
	return &Kinds{queues: slices.Clone(queues), handled: map[string]string{}}
}

// Restrict gives the queues to one that took any.
func (k *Kinds) Restrict(queues []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues == nil {
		k.queues = slices.Clone(queues)
	}
}

// Check refuses a kind that can't be scheduled, by a *task.FieldError that names the queue or the kind.
func (k *Kinds) Check(kind task.KindInfo) error {
	if k == nil {
		return nil
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.queues != nil && !slices.Contains(k.queues, kind.Queue) {
		return &task.FieldError{
			Field:   "queue",
			Problem: fmt.Sprintf("%q of kind %s is none of the configuration's: %s", kind.Queue, kind.Name, strings.Join(k.queues, ", ")),
		}
	}
	if queue, ok := k.handled[kind.Name]; ok && queue != kind.Queue {
		return &task.FieldError{
			Field:   "kind",
			Problem: fmt.Sprintf("%s is declared twice, for queue %q and, with its handler, for queue %q", kind.Name, kind.Queue, queue),
		}
	}
	return nil
}

// Handle records the kinds for which handlers are about to run, or refuses them as Check does, and then records none.
func (k *Kinds) Handle(kinds []task.KindInfo) error {
	if k == nil {
		return nil
	}
	for _, kind := range kinds {
		if err := k.Check(kind); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range kinds {
		k.handled[kind.Name] = kind.Queue
	}
	return nil
}

// CheckSpecs is Check for all specs, of which most have one kind.
func (k *Kinds) CheckSpecs(specs []task.Spec) error {
	var last task.KindInfo
	for _, spec := range specs {
		kind := spec.Kind()
		if kind.Name == "" || kind.Name == last.Name && kind.Queue == last.Queue {
			continue // a kind without a name is refused with the rest of the input
		}
		if err := k.Check(kind); err != nil {
			return fmt.Errorf("schedule %s: %w", spec.ID(), err)
		}
		last = kind
	}
	return nil
}
