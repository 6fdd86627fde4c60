// Package wheel is a delay queue in memory on a timing wheel, after Varghese and Lauck ("Hashed and Hierarchical Timing
// Wheels", 1987): a hashed one, and a hierarchical one as in Kafka's purgatory and the Linux kernel. What is pending is
// lost when the process ends.
//
// A tick is 1 ms, for the lowest lag: the wheel adds half a tick on average. The price is 1000 wake-ups a second, also
// when idle; ticks of 10 ms would cost a tenth of them and lag ten times as much.
package wheel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/queue"
)

const tick = time.Millisecond

// timers is one kind of wheel. Its time counts in ticks since 1970 and begins when it is made.
type timers interface {
	// add makes t pending; what is overdue goes to the next tick.
	add(t *timer)
	// advance turns the wheel and takes out what became due.
	advance(to int64) []*timer
}

// Queue turns a wheel.
type Queue struct {
	workers int

	mu      sync.Mutex
	wheel   timers
	pending map[int64]*timer
}

// OpenHashed makes an empty queue on a hashed wheel.
func OpenHashed(_ context.Context, env queue.Env) (queue.Queue, error) {
	return NewHashed(env.Workers), nil
}

// OpenHierarchical makes an empty queue on a hierarchical wheel.
func OpenHierarchical(_ context.Context, env queue.Env) (queue.Queue, error) {
	return newQueue(env.Workers, newHierarchical(now())), nil
}

// NewHashed makes an empty queue on a hashed wheel with so many handlers.
func NewHashed(workers int) *Queue { return newQueue(workers, newHashed(now())) }

func newQueue(workers int, wheel timers) *Queue {
	return &Queue{workers: workers, wheel: wheel, pending: map[int64]*timer{}}
}

var _ queue.Mover = (*Queue)(nil)

// Schedule puts the jobs onto the wheel.
func (q *Queue) Schedule(_ context.Context, jobs []queue.Job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		q.add(j)
	}
	return nil
}

// Move takes a pending job to another slot.
func (q *Queue) Move(_ context.Context, j queue.Job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.pending[j.ID]
	if !ok {
		return fmt.Errorf("move %d: not pending", j.ID)
	}
	t.leave()
	q.add(j)
	return nil
}

// add rounds the due time up to a whole tick: never early.
func (q *Queue) add(j queue.Job) {
	micros := tick.Microseconds()
	t := &timer{job: j, tick: (j.Due + micros - 1) / micros}
	q.wheel.add(t)
	q.pending[j.ID] = t
}

// Work hands over what is due.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error { return q.Run(ctx, e.Do) }

// Run is Work with any handler.
func (q *Queue) Run(ctx context.Context, do alternative.Do) error {
	return alternative.Hand(ctx, q.workers, q.turn, do)
}

// Close forgets what is pending.
func (q *Queue) Close() error { return nil }

func (q *Queue) turn(ctx context.Context, hand func([]queue.Job)) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			hand(q.due(now()))
		case <-ctx.Done():
			return nil
		}
	}
}

func (q *Queue) due(now int64) []queue.Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	var jobs []queue.Job
	for _, t := range q.wheel.advance(now) {
		delete(q.pending, t.job.ID)
		jobs = append(jobs, t.job)
	}
	return jobs
}

// now is the tick that has begun last.
func now() int64 { return time.Now().UnixMicro() / tick.Microseconds() }
