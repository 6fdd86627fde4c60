// Package heap is a delay queue in memory, as in many a service: a min-heap by due time and one timer for its head. What
// is pending is lost when the process ends.
package heap

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/queue"
)

// Queue is the heap and its timer.
type Queue struct {
	workers int
	wake    chan struct{} // the head may have changed

	mu      sync.Mutex
	heap    byDue
	pending map[int64]*item
}

// Open makes an empty queue.
func Open(_ context.Context, env queue.Env) (queue.Queue, error) {
	return &Queue{workers: env.Workers, wake: make(chan struct{}, 1), pending: map[int64]*item{}}, nil
}

var _ queue.Mover = (*Queue)(nil)

// Schedule puts the jobs into the heap.
func (q *Queue) Schedule(_ context.Context, jobs []queue.Job) error {
	q.mu.Lock()
	for _, j := range jobs {
		it := &item{job: j}
		heap.Push(&q.heap, it)
		q.pending[j.ID] = it
	}
	q.mu.Unlock()
	q.look()
	return nil
}

// Move gives a pending job another place.
func (q *Queue) Move(_ context.Context, j queue.Job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.pending[j.ID]
	if !ok {
		return fmt.Errorf("move %d: not pending", j.ID)
	}
	it.job = j
	heap.Fix(&q.heap, it.at)
	q.look()
	return nil
}

// Work hands over what is due.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	return alternative.Hand(ctx, q.workers, q.take, e.Do)
}

// Close forgets what is pending.
func (q *Queue) Close() error { return nil }

// look makes the timer be set anew.
func (q *Queue) look() {
	select {
	case q.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (q *Queue) take(ctx context.Context, hand func([]queue.Job)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
		hand(q.pop(time.Now().UnixMicro()))
		timer.Reset(q.wait(time.Now()))
	}
}

// pop takes out all that is due at now.
func (q *Queue) pop(now int64) []queue.Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []queue.Job
	for len(q.heap) > 0 && q.heap[0].job.Due <= now {
		j := q.heap[0].job
		heap.Pop(&q.heap)
		delete(q.pending, j.ID)
		due = append(due, j)
	}
	return due
}

// wait is how long the head is from due.
func (q *Queue) wait(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 {
		return time.Hour
	}
	return q.heap[0].job.At().Sub(now)
}

// item is a pending job and its place in the heap.
type item struct {
	job queue.Job
	at  int
}

type byDue []*item

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].job.Due < h[j].job.Due }

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *byDue) Push(x any) {
	it := x.(*item) //nolint:forcetypeassert // only Schedule pushes
	it.at = len(*h)
	*h = append(*h, it)
}

func (h *byDue) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return it
}
