package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/pkg/task"
)

const (
	putTries     = 2
	putPause     = 20 * time.Millisecond  // between the tries of one put
	breakAfter   = 3                      // failed puts in a row after which the index counts as away
	breakFor     = 250 * time.Millisecond // then one put tries whether it is back
	maxPutLength = 10000                  // tasks that wait for the next put; more go to the backlog
)

// indexer puts committed tasks into the index. One goroutine takes everything that is waiting, puts it in one call, and
// takes what has come in meanwhile: the slower the index, the larger its calls, and nobody lingers for company.
type indexer struct {
	index   Index
	backlog *backlog
	breaker *gobreaker.CircuitBreaker[struct{}]
	m       metrics
	wait    time.Duration
	timeout time.Duration
	wake    chan struct{} // holds one: something is waiting, or the indexer was closed

	mu     sync.Mutex
	next   *group // what the next put takes; nil if nothing is waiting
	busy   bool   // a put is under way
	closed bool
}

// group is the tasks of one put.
type group struct {
	tasks []task.Task
	done  chan struct{} // closed when they were put, or handed to the backlog
}

func newIndexer(cfg Config, index Index, b *backlog, m metrics) *indexer {
	return &indexer{
		index: index, backlog: b, m: m, wait: cfg.IndexWait, timeout: cfg.PutTimeout,
		breaker: newBreaker(cfg.Logger), wake: make(chan struct{}, 1),
	}
}

func newBreaker(logger *slog.Logger) *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "index",
		Timeout:     breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				logger.Warn("index is away, tasks go to compensation", "state", to.String())
			case to == gobreaker.StateClosed:
				logger.Info("index is back", "state", to.String())
			}
		},
	})
}

// away reports whether the index failed so often lately that it isn't asked.
func (x *indexer) away() bool { return x.breaker.State() == gobreaker.StateOpen }

// put hands the tasks over and waits until they were put, for at most the configured time.
func (x *indexer) put(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	done := x.join(tasks)
	if done == nil {
		count(x.m.puts, resultSkipped, len(tasks))
		x.backlog.add(tasks)
		return
	}
	limit := time.NewTimer(x.wait)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// join adds the tasks to the next put; nil if they shouldn't wait for one.
func (x *indexer) join(tasks []task.Task) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refuses(len(tasks)) {
		return nil
	}
	if x.next == nil {
		x.next = &group{done: make(chan struct{})}
		x.signal()
	}
	x.next.tasks = append(x.next.tasks, tasks...)
	return x.next.done
}

func (x *indexer) refuses(n int) bool {
	if x.closed || x.next != nil && len(x.next.tasks)+n > maxPutLength {
		return true
	}
	switch x.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return x.busy || x.next != nil // one put finds out whether the index is back; nobody waits for its answer
	default:
		return false
	}
}

func (x *indexer) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// close lets run end after the last put.
func (x *indexer) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.signal()
}

// run puts group after group until the indexer is closed, and closes the backlog then. The end of ctx makes the puts
// that are left fail at once.
func (x *indexer) run(ctx context.Context) {
	defer x.backlog.close()
	for range x.wake {
		for g := x.take(); g != nil; g = x.take() {
			x.flush(ctx, g)
		}
		if x.finished() {
			return
		}
	}
}

func (x *indexer) take() *group {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.next
	x.next, x.busy = nil, g != nil
	return g
}

func (x *indexer) finished() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed && x.next == nil
}

func (x *indexer) flush(ctx context.Context, g *group) {
	defer close(g.done)
	tasks := latest(g.tasks)
	if _, err := x.breaker.Execute(func() (struct{}, error) { return struct{}{}, x.tryPut(ctx, tasks) }); err != nil {
		count(x.m.puts, resultFailed, len(tasks))
		x.backlog.add(tasks)
		return
	}
	count(x.m.puts, resultOK, len(tasks))
}

func (x *indexer) tryPut(ctx context.Context, tasks []task.Task) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, x.timeout)
		defer cancel()
		return struct{}{}, x.index.Put(ctx, tasks)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(putPause)), backoff.WithMaxTries(putTries))
	if err != nil {
		return fmt.Errorf("put %d tasks: %w", len(tasks), err)
	}
	return nil
}
