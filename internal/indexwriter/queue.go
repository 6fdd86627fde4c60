package indexwriter

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/pkg/task"
)

const (
	maxQueuedTasks   = 10000 // that wait for a put or are in one
	tasksPerRoomWait = 10    // for each so many tasks a caller waits Config.CallerWait once more for room
)

// enqueueWithRoom is enqueue that waits for room: for at most Config.CallerWait, and that again for each tasksPerRoomWait
// tasks, which is longer than the wait for a put. Callers that schedule faster than the index accepts are slowed down by it, or
// the daemon would have to read all their rows. Space is freed when a flush ends, even if it failed.
func (w *Writer) enqueueWithRoom(ctx context.Context, tasks []task.Task) <-chan struct{} {
	if len(tasks) == 0 {
		return nil
	}
	return w.enqueue(tasks, func(n int64) bool {
		if w.room.TryAcquire(n) { // also for a ctx that has ended
			return true
		}
		ctx, cancel := context.WithTimeout(ctx, w.callerWait*time.Duration(1+len(tasks)/tasksPerRoomWait))
		defer cancel()
		return w.room.Acquire(ctx, n) == nil
	})
}

// enqueue adds the tasks to the next flush, or skips them. The channel is closed when they were put; nil if they were skipped.
func (w *Writer) enqueue(tasks []task.Task, acquireRoom func(int64) bool) <-chan struct{} {
	if !w.refuses() && acquireRoom(roomFor(tasks)) {
		w.queuedTasks.Add(int64(len(tasks)))
		if put := w.puts.Submit(tasks); put != nil {
			return put
		}
		w.dequeue(tasks)
	}
	w.skip(tasks)
	return nil
}

// dequeue makes room again.
func (w *Writer) dequeue(tasks []task.Task) {
	w.queuedTasks.Add(-int64(len(tasks)))
	w.room.Release(roomFor(tasks))
}

// roomFor is the room that the tasks take: more tasks than fit take all of it.
func roomFor(tasks []task.Task) int64 { return int64(min(len(tasks), maxQueuedTasks)) }

// refuses reports whether the index failed so lately that no task should wait for a put.
func (w *Writer) refuses() bool {
	switch w.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return w.queuedTasks.Load() > 0 // one put finds out whether the index is back; nobody waits for its answer
	default:
		return false
	}
}

// skip leaves tasks to compensation, without a put.
func (w *Writer) skip(tasks []task.Task) {
	if len(tasks) > 0 {
		count(w.metrics.puts, resultSkipped, len(tasks))
		w.compensations.add(tasks)
	}
}
