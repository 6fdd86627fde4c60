package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// HandlerFunc is one call of a handler of any form, as middleware sees it. The tasks are the rows as locked, all of one kind:
// one task, or the tasks of a batch handler's call.
type HandlerFunc func(ctx context.Context, tasks []task.Task) error

// Errors that middleware is answered with.
var (
	errNextTwice   = errors.New("worker: middleware called next twice, or after it had returned: a handler runs once")
	errForeignNext = errors.New("worker: middleware called next with a context that does not come from its own")
)

// Use wraps every handler of the mux, registered before or after, in middleware: for logs, traces, limits, values in the
// context. The first one is the outermost. Each is called once, when the first worker is made; the function that it returns
// is called for each call of a handler, concurrently. Middleware is a part of the handler: its panic is the handler's, and
// its time counts as the handler's. Middleware has no transaction, and can't commit or roll back.
//
// The handler runs when the innermost next is called, with the context that next is given, which must come from the one that
// the middleware got; the handler gets the tasks of its call, whatever next is given. What the outermost one answers counts:
//
//   - nil: the tasks are done. So middleware that answers nil without calling next marks tasks done whose handler never
//     ran, and one that answers nil for next's error commits what the handler wrote before it failed. To run the task later
//     answer Snooze.
//   - an error: the attempt failed, and the transaction keeps nothing of the call. Snooze and Discard are errors too
//     (IsSnooze, IsDiscard); an error that wraps them still counts as theirs.
//
// A second call of next answers an error and does not run the handler: retries are the worker's. A call that answered nil
// may be followed by another one of the same tasks, if the transaction was rolled back for another task's sake: to count
// tasks that are done, use OnEvent. Middleware is not called for a task whose payload can't be decoded.
//
// Use panics on nil, and must not be called after Work.
func (m *Mux) Use(middleware ...func(next HandlerFunc) HandlerFunc) {
	for _, wrap := range middleware {
		if wrap == nil {
			panic("worker: nil for middleware")
		}
	}
	m.middleware = append(m.middleware, middleware...)
}

// compose puts the middleware around callHandler, once for all workers of the mux.
func (m *Mux) compose() error {
	m.composing.Do(func() {
		if len(m.middleware) == 0 {
			return
		}
		outermost := HandlerFunc(callHandler)
		for i, wrap := range slices.Backward(m.middleware) {
			if outermost = wrap(outermost); outermost == nil {
				m.refused = fmt.Errorf("worker: middleware %d of Use is nil once it has its next", i+1)
				return
			}
		}
		m.outermost = outermost
	})
	return m.refused
}

// wrapped is one call of a handler within middleware.
type wrapped struct {
	run  func(ctx context.Context) error
	over atomic.Bool // it has run, or must not run any more
}

// wrappedKey is the key of a context's *wrapped.
type wrappedKey struct{}

// callWrapped calls the middleware around run.
func (m *Mux) callWrapped(ctx context.Context, call *settle.Call, run func(ctx context.Context) error) error {
	tasks := make([]task.Task, call.Len())
	for i := range tasks {
		tasks[i] = call.Task(i)
	}
	w := &wrapped{run: run}
	defer w.over.Store(true) // an outside handler that ran now would act for a task that is done
	return m.outermost(context.WithValue(ctx, wrappedKey{}, w), tasks)
}

// callHandler is the innermost next: it runs the handler of the context's call.
func callHandler(ctx context.Context, _ []task.Task) error {
	w, _ := ctx.Value(wrappedKey{}).(*wrapped)
	switch {
	case w == nil:
		return errForeignNext
	case w.over.Swap(true):
		return errNextTwice
	default:
		return w.run(ctx)
	}
}
