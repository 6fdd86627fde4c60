package indexwriter

import (
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/duetime/duetime/pkg/task"
)

const (
	maxQueuedTasks   = 10_000 // tasks that wait for a put or are in one, but for late drops
	maxLateDrops     = 25_600 // late drops that do: a burst ends more tasks than Redis forgets beside its claims
	tasksPerRoomWait = 10     // tasks for each of which a caller waits another Config.CallerWait for room
)

// group is the tasks of one caller.
type group struct {
	tasks []task.Task
	late  bool // they may wait for others: see Offer
}

// enqueue adds the tasks to the next flush, or skips them. The channel is closed when the tasks were put; nil if they
// were skipped.
func (w *Writer) enqueue(g group, acquireRoom func(int64) bool) <-chan struct{} {
	if !w.refuses() && acquireRoom(roomFor(g.tasks)) {
		if !g.late {
			w.queuedTasks.Add(int64(len(g.tasks)))
		}
		if put := w.puts.Submit(g); put != nil {
			return put
		}
		w.dequeue(g)
	}
	w.skip(g.tasks)
	return nil
}

// dequeue frees the group's room.
func (w *Writer) dequeue(g group) {
	if !g.late {
		w.queuedTasks.Add(-int64(len(g.tasks)))
	}
	w.roomOf(g).Release(roomFor(g.tasks))
}

// roomOf returns where the group's tasks take room.
func (w *Writer) roomOf(g group) *semaphore.Weighted {
	if g.late {
		return w.lateRoom
	}
	return w.room
}

// roomFor returns the room that the tasks take: more than maxQueuedTasks tasks take all of it.
func roomFor(tasks []task.Task) int64 { return int64(min(len(tasks), maxQueuedTasks)) }

// refuses reports whether tasks are skipped because the index is away.
func (w *Writer) refuses() bool {
	switch w.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return w.queuedTasks.Load() > 0 // one put probes the index; others don't wait for its answer
	default:
		return false
	}
}

// skip compensates tasks without trying a put.
func (w *Writer) skip(tasks []task.Task) {
	if len(tasks) > 0 {
		count(w.metrics.puts, resultSkipped, len(tasks))
		w.compensations.add(tasks)
	}
}
