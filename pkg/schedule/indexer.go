package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/pkg/task"
)

const (
	putLanes   = 1 // puts at a time
	putTries   = 2
	putPause   = 20 * time.Millisecond  // between the tries of one put
	breakAfter = 3                      // failed puts in a row after which the index counts as away
	breakFor   = 250 * time.Millisecond // then one put tries whether it is back
	putMost    = 256                    // callers that share one
	maxQueued  = 30000                  // tasks that wait for a put; more go to the backlog
)

// indexer puts committed tasks into the index. Callers that come at the same time share puts, so that the slower the index,
// the larger its puts.
type indexer struct {
	index   Index
	backlog *backlog
	breaker *gobreaker.CircuitBreaker[struct{}]
	m       metrics
	wait    time.Duration
	timeout time.Duration
	puts    *gather[[]task.Task, struct{}]
	queued  atomic.Int64 // tasks that wait for a put, or are in one
}

func newIndexer(cfg Config, index Index, b *backlog, m metrics) *indexer {
	x := &indexer{
		index: index, backlog: b, m: m, wait: cfg.IndexWait, timeout: cfg.PutTimeout, breaker: newBreaker(cfg.Logger),
	}
	x.puts = newGather(putLanes, putMost, x.flush)
	return x
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

// putNow puts what several callers have committed, on this goroutine and for at most the configured time. What fails is tried
// again behind their backs.
func (x *indexer) putNow(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	if x.breaker.State() == gobreaker.StateClosed {
		ctx, cancel := context.WithTimeout(ctx, x.wait)
		defer cancel()
		if _, err := x.breaker.Execute(func() (struct{}, error) { return struct{}{}, x.index.Put(ctx, tasks) }); err == nil {
			count(x.m.puts, resultOK, len(tasks))
			return
		}
	}
	x.hand(tasks)
}

// put hands the tasks over and waits until they were put, for at most the configured time.
func (x *indexer) put(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	done := x.hand(tasks)
	if done == nil {
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

// hand adds the tasks to the next put, or to the backlog. What it gives is closed when they were put; nil if nobody need
// wait for that.
func (x *indexer) hand(tasks []task.Task) <-chan struct{} {
	done := x.join(tasks)
	if done == nil {
		count(x.m.puts, resultSkipped, len(tasks))
		x.backlog.add(tasks)
	}
	return done
}

// join adds the tasks to the next put; nil if they shouldn't wait for one.
func (x *indexer) join(tasks []task.Task) <-chan struct{} {
	n := int64(len(tasks))
	before := x.queued.Add(n) - n
	if !x.refuses(before, n) {
		if r := x.puts.enter(tasks); r != nil {
			return r.done
		}
	}
	x.queued.Add(-n)
	return nil
}

func (x *indexer) refuses(before, n int64) bool {
	if before > 0 && before+n > maxQueued {
		return true
	}
	switch x.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return before > 0 // one put finds out whether the index is back; nobody waits for its answer
	default:
		return false
	}
}

// run puts until the indexer is closed, and closes the backlog then. The end of ctx makes the puts that are left fail at
// once.
func (x *indexer) run(ctx context.Context) {
	defer x.backlog.close()
	x.puts.run(ctx)
}

// close lets run end after the last put.
func (x *indexer) close() { x.puts.close() }

// flush puts what some callers have committed, or hands it to the backlog.
func (x *indexer) flush(ctx context.Context, groups [][]task.Task) ([]struct{}, error) {
	all := slices.Concat(groups...)
	defer x.queued.Add(-int64(len(all)))
	tasks := latest(all)
	if _, err := x.breaker.Execute(func() (struct{}, error) { return struct{}{}, x.tryPut(ctx, tasks) }); err != nil {
		count(x.m.puts, resultFailed, len(tasks))
		x.backlog.add(tasks)
		return nil, err
	}
	count(x.m.puts, resultOK, len(tasks))
	return nil, nil
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
