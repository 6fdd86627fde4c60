package worker

import (
	"context"

	"github.com/duetime/duetime/pkg/task"
)

// Event is what became of a task in a worker's transaction that has committed.
type Event struct {
	Name string    // task.EventDone, task.EventFailed, task.EventSnoozed, task.EventSkipped or task.EventDead
	Task task.Task // the row as committed: after EventDone it is pending if the handler moved its own task
	Err  error     // why the task failed, rests, was skipped or is dead; nil after EventDone
}

// OnEvent calls fn for each task that is done, failed, snoozed, skipped as too late, or dead, after the commit that says so
// and never before. Hooks are for metrics, alerts, caches. They have no transaction, and change nothing about the task.
//
// A worker calls its hooks in a goroutine of their own, one event after the other, so that no task waits for them; several
// workers of one mux call them concurrently. fn's ctx ends after 5 s, or when the worker has stopped. While 10,000 events
// wait for slow hooks, further ones are dropped, which duetime_events_dropped_total counts. A panic is recovered, logged and
// counted (duetime_hook_panics_total).
//
// Nearly every event is reported once, but duetime promises neither at least nor at most once. An event is lost if the
// process ends between the commit and the call, or if it was dropped. If the answer to the commit was lost, the next look at
// the row reports EventDone for a row that is done, perhaps beside another worker that reports the same, and no other event.
// For what must not be lost use the handler's own transaction, the dead topic, or the history.
//
// OnEvent panics on nil, and must not be called after Work.
func (m *Mux) OnEvent(fn func(ctx context.Context, e Event)) {
	if fn == nil {
		panic("worker: nil for a hook")
	}
	m.hooks = append(m.hooks, fn)
}
