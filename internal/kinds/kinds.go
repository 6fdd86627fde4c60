// Package kinds says which kinds a process may schedule and handle.
package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/duetime/duetime/pkg/task"
)

// Kinds says which kinds a process may schedule and handle: those of the configuration's queues, those of queues that operators have
// added, and one of each name. A task of another queue would wait for ever, since nobody reads its hints; so would one whose
// handler, of the same name, reads another queue. A nil Kinds takes all. It is safe for concurrent use. Our own wiring makes it,
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

// Hold reports whether an operator has added a queue, and keeps the queue until the caller's transaction ends, if it has one.
type Hold = func(queue string) (bool, error)

// Configures reports whether the configuration has the queue.
func (k *Kinds) Configures(queue string) bool {
	if k == nil {
		return true
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.queues == nil || slices.Contains(k.queues, queue)
}

// Check refuses a kind that can't be scheduled, by a *task.FieldError that names the queue or the kind. It asks hold about a queue that
// the configuration lacks.
func (k *Kinds) Check(kind task.KindInfo, hold Hold) error {
	if err := k.checkQueue(kind.Name, kind.Queue, hold); err != nil || k == nil {
		return err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.checkHandled(kind)
}

// CheckQueue refuses a queue that is neither the configuration's nor was added, by a *task.FieldError.
func (k *Kinds) CheckQueue(queue string, hold Hold) error { return k.checkQueue("", queue, hold) }

func (k *Kinds) checkQueue(kind, queue string, hold Hold) error {
	if k.Configures(queue) {
		return nil
	}
	if added, err := hold(queue); added || err != nil {
		return err
	}
	if kind != "" {
		kind = " of kind " + kind
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return &task.FieldError{
		Field:   "queue",
		Problem: fmt.Sprintf("%q%s is none of the configuration's: %s; nor was it added", queue, kind, strings.Join(k.queues, ", ")),
	}
}

// checkHandled refuses a kind whose handler takes its tasks from another queue; mu is held.
func (k *Kinds) checkHandled(kind task.KindInfo) error {
	if queue, ok := k.handled[kind.Name]; ok && queue != kind.Queue {
		return &task.FieldError{
			Field:   "kind",
			Problem: fmt.Sprintf("%s is declared twice, for queue %q and, with its handler, for queue %q", kind.Name, kind.Queue, queue),
		}
	}
	return nil
}

// Handle records the kinds for which handlers are about to run. It refuses one that is handled from another queue, and then records
// none. CheckHandled checks their queues.
func (k *Kinds) Handle(kinds []task.KindInfo) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range kinds {
		if err := k.checkHandled(kind); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		k.handled[kind.Name] = kind.Queue
	}
	return nil
}

// CheckHandled refuses the kinds of Handle by a *task.FieldError if one of their queues is neither the configuration's nor was added.
func (k *Kinds) CheckHandled(hold Hold) error {
	if k == nil {
		return nil
	}
	k.mu.RLock()
	handled := maps.Clone(k.handled)
	k.mu.RUnlock()
	for _, kind := range slices.Sorted(maps.Keys(handled)) {
		if err := k.checkQueue(kind, handled[kind], hold); err != nil {
			return err
		}
	}
	return nil
}

// CheckSpecs is Check for all specs, of which most have one kind.
func (k *Kinds) CheckSpecs(specs []task.Spec, hold Hold) error {
	var last task.KindInfo
	for _, spec := range specs {
		kind := spec.Kind()
		if kind.Name == "" || kind.Name == last.Name && kind.Queue == last.Queue {
			continue // a kind without a name is refused with the rest of the input
		}
		if err := k.Check(kind, hold); err != nil {
			return fmt.Errorf("schedule %s: %w", spec.ID(), err)
		}
		last = kind
	}
	return nil
}
