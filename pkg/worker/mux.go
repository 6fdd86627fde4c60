package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// Task is a task as its handler sees it: the row as locked, and the decoded payload.
type Task[P any] struct {
	task.Task
	Payload P // decoded; hides the raw form in the row
}

// Mux maps kinds to their handlers; its zero value is empty. Fill it before Work; it must not be changed after.
type Mux struct {
	handlers   map[string]*settle.Handler
	middleware []func(next HandlerFunc) HandlerFunc
	hooks      []func(ctx context.Context, e Event)

	composing sync.Once
	outermost HandlerFunc // all middleware around a handler; nil without middleware
	refused   error       // what is wrong with the middleware
}

// NewMux makes an empty one.
func NewMux() *Mux { return &Mux{handlers: map[string]*settle.Handler{}} }

// Kinds returns the names of the registered kinds, those that they had before (task.Was) among them, in alphabetical order.
func (m *Mux) Kinds() []string { return slices.Sorted(maps.Keys(m.handlers)) }

// Queues returns the queues of the registered kinds in alphabetical order.
func (m *Mux) Queues() []string {
	queues := map[string]bool{}
	for _, h := range m.handlers {
		queues[h.Info.Queue] = true
	}
	return slices.Sorted(maps.Keys(queues))
}

// Handle registers a handler that is called for one task at a time. What it does through tx takes effect exactly once,
// together with the end of the task: if it returns an error, panics, or exceeds its time, nothing of it remains and an
// attempt is charged. Its ctx ends after the kind's task.Timeout, or worker.handler_timeout. tx must not be used after it
// returned. Handle panics on a kind of which a name is registered already, on one that NewKind hasn't made, and on a nil fn, as the
// other forms do.
func Handle[P any](m *Mux, kind task.Kind[P], fn func(ctx context.Context, tx *Tx, t Task[P]) error) {
	check(m, kind, fn == nil)
	register(m, kind, settle.Single, func(ctx context.Context, tx *Tx, ts []Task[P]) error {
		return fn(ctx, tx, ts[0])
	})
}

// HandleBatch registers a handler for effects that are one statement for many tasks. A call has at most worker.batch
// tasks, and at most one of an owner and subject, so that an UPDATE … WHERE id IN (…) counts each. An error makes it be
// called again with halves of them until the failing task is alone; Snooze and Discard hold for all tasks of the call.
func HandleBatch[P any](m *Mux, kind task.Kind[P], fn func(ctx context.Context, tx *Tx, ts []Task[P]) error) {
	check(m, kind, fn == nil)
	register(m, kind, settle.Batch, fn)
}

// HandleOutside registers a handler that acts outside MySQL: it is called before the commit, with the task's row locked,
// and so its effect is at least once. The task's id is the idempotency key to pass on. Such a task runs alone; cancel
// and reschedule answer "running, try again" meanwhile. After a failed attempt they answer yes, although that attempt may have
// had its effect.
func HandleOutside[P any](m *Mux, kind task.Kind[P], fn func(ctx context.Context, t Task[P]) error) {
	check(m, kind, fn == nil)
	register(m, kind, settle.Outside, func(ctx context.Context, _ *Tx, ts []Task[P]) error {
		return fn(ctx, ts[0])
	})
}

// check panics on what could only fail when the first task is due.
func check[P any](m *Mux, kind task.Kind[P], none bool) {
	switch {
	case kind.Name() == "":
		panic("worker: a handler's kind has no name: make it by task.NewKind")
	case none:
		panic(fmt.Sprintf("worker: kind %q has nil for a handler", kind.Name()))
	}
	for _, name := range kind.Info().Names() {
		switch before := m.handlers[name]; {
		case before == nil:
		case before.Info.Name != kind.Name():
			panic(fmt.Sprintf("worker: %q is a name of two kinds (task.Was), of %q and of %q", name, before.Info.Name, kind.Name()))
		case before.Info.Queue != kind.Info().Queue:
			panic(fmt.Sprintf("worker: kind %q has two handlers: it is declared for queue %q and for queue %q",
				name, before.Info.Queue, kind.Info().Queue))
		default:
			panic(fmt.Sprintf("worker: kind %q has two handlers", name))
		}
	}
}

func register[P any](m *Mux, kind task.Kind[P], f settle.Form, fn func(context.Context, *Tx, []Task[P]) error) {
	if m.handlers == nil {
		m.handlers = map[string]*settle.Handler{}
	}
	h := &settle.Handler{
		Info: kind.Info(),
		Form: f,
		Run: func(ctx context.Context, call *settle.Call) error {
			ts, err := decode(ctx, kind, call)
			if err != nil {
				return err // charged and retried: a worker of another version may be able to decode it
			}
			if m.outermost == nil {
				return fn(ctx, call.Tx(), ts)
			}
			return m.callWrapped(ctx, call, func(ctx context.Context) error { return fn(ctx, call.Tx(), ts) })
		},
	}
	for _, name := range kind.Info().Names() {
		m.handlers[name] = h
	}
}

// decode returns the call's tasks with their payloads.
func decode[P any](ctx context.Context, kind task.Kind[P], call *settle.Call) ([]Task[P], error) {
	ts := make([]Task[P], call.Len())
	for i := range ts {
		row := call.Task(i)
		payload, err := kind.Payload(row)
		switch {
		case err != nil && len(ts) > 1:
			return nil, errors.New(err.Error()) // a Snooze or a Discard would hold for all: the task's own call answers it
		case err != nil:
			return nil, err
		}
		ts[i] = Task[P]{Task: row, Payload: payload}
	}
	return ts, ctx.Err() // the time may be over: an outside handler must not act for a call that was abandoned
}
