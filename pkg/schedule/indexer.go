package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/pkg/task"
)

const (
	putLanes   = 1 // puts at a time
	putTries   = 2
	putPause   = 20 * time.Millisecond  // between the tries of one put
	breakAfter = 3                      // failed puts in a row after which the index counts as away
	breakFor   = 250 * time.Millisecond // then one put tries whether it is back
	putMost    = 256                    // callers that share one
	putRest    = 5 * time.Millisecond   // from one put to the next, if that is of few tasks and nobody waits for it
	restMost   = 100                    // few are fewer
	putTasks   = 2000                   // tasks in one call to the index: fast enough for its timeout on a busy machine
	putCalls   = 2                      // calls to the index at a time
	maxQueued  = 10000                  // tasks that wait for a put or are in one; for more there is no room
	waitTasks  = 100                    // tasks of one caller for which it waits once more
	roomTasks  = 10                     // the same, for room: it gets some as long as puts end, be it that they fail
)

// indexer puts committed tasks into the index. Callers that come at the same time share puts, so that the slower the index,
// the larger its puts.
type indexer struct {
	index   Index
	backlog *backlog
	breaker *gobreaker.CircuitBreaker[[]task.Task] // of the index as a whole
	doubts  doubts                                 // about single shards
	trial   *semaphore.Weighted                    // one put of doubted shards at a time
	trials  sync.WaitGroup
	m       metrics
	wait    time.Duration
	timeout time.Duration
	puts    *batcher.Batcher[[]task.Task, struct{}]
	waiting atomic.Int64  // callers that wait for a put
	hurry   chan struct{} // one has come
	ended   time.Time     // the last put; known to the lane
	queued  atomic.Int64  // tasks that wait for a put, or are in one
	room    *semaphore.Weighted
}

func newIndexer(cfg Config, index Index, b *backlog, m metrics) *indexer {
	x := &indexer{
		index: index, backlog: b, m: m, wait: cfg.IndexWait, timeout: cfg.PutTimeout, breaker: newBreaker(cfg.Logger),
		room: semaphore.NewWeighted(maxQueued), hurry: make(chan struct{}, 1),
		doubts: doubts{logger: cfg.Logger}, trial: semaphore.NewWeighted(1),
	}
	x.puts = batcher.New(batcher.Config[[]task.Task]{Calls: putLanes, Items: putMost}, x.flush)
	return x
}

func newBreaker(logger *slog.Logger) *gobreaker.CircuitBreaker[[]task.Task] {
	return gobreaker.NewCircuitBreaker[[]task.Task](gobreaker.Settings{
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

// away reports whether the index, or the shard, failed so lately that it isn't asked.
func (x *indexer) away(shard int) bool {
	return x.breaker.State() == gobreaker.StateOpen || x.doubts.away(shard)
}

// putNow puts what several callers have committed, on this goroutine and for at most the configured time. What fails is tried
// again behind their backs. Where puts are waiting it goes with them: one of them may be that of a task's making, and must not
// come after the drop of its cancel.
func (x *indexer) putNow(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	if x.queued.Load() > 0 {
		x.put(ctx, tasks)
		return
	}
	if _, doubted := x.doubts.part(tasks); len(doubted) == 0 && x.breaker.State() == gobreaker.StateClosed {
		ctx, cancel := context.WithTimeout(ctx, x.wait)
		defer cancel()
		if failed, err := x.breaker.Execute(func() ([]task.Task, error) { return x.putSound(ctx, tasks) }); err == nil {
			count(x.m.puts, resultOK, len(tasks)-len(failed))
			if tasks = failed; len(tasks) == 0 {
				return
			}
		}
	}
	x.hand(tasks, x.room.TryAcquire)
}

// put hands the tasks over and waits until they were put, for at most the configured time, and for that time again for each
// hundred.
func (x *indexer) put(ctx context.Context, tasks []task.Task) {
	x.await(ctx, x.send(ctx, tasks), len(tasks))
}

// send hands the tasks over. It may wait for room, and longer than put does: who makes more than the index takes is slowed
// down by that, or the daemon would have to read it all again. What it returns is that of hand.
func (x *indexer) send(ctx context.Context, tasks []task.Task) <-chan struct{} {
	if len(tasks) == 0 {
		return nil
	}
	return x.hand(tasks, func(n int64) bool {
		if x.room.TryAcquire(n) { // also for a ctx that has ended
			return true
		}
		ctx, cancel := context.WithTimeout(ctx, x.wait*time.Duration(1+len(tasks)/roomTasks))
		defer cancel()
		return x.room.Acquire(ctx, n) == nil
	})
}

// settle waits until all that was handed over so far was put, for at most the configured time.
func (x *indexer) settle(ctx context.Context) {
	if x.queued.Load() == 0 {
		return
	}
	x.await(ctx, x.puts.Submit(nil), 0) // one put at a time: what was handed over before ends before
}

// await waits until done is closed, if it isn't nil, as long as the caller of so many tasks should wait.
func (x *indexer) await(ctx context.Context, done <-chan struct{}, tasks int) {
	if done == nil {
		return
	}
	x.waiting.Add(1)
	defer x.waiting.Add(-1)
	select {
	case x.hurry <- struct{}{}:
	default:
	}
	limit := time.NewTimer(x.wait * time.Duration(1+tasks/waitTasks))
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// hand adds the tasks to the next put, or to the backlog. What it returns is closed when they were put; nil if nobody need
// wait for that.
func (x *indexer) hand(tasks []task.Task, room func(int64) bool) <-chan struct{} {
	done := x.join(tasks, room)
	if done == nil {
		count(x.m.puts, resultSkipped, len(tasks))
		x.backlog.add(tasks)
	}
	return done
}

// join adds the tasks to the next put once there is room; nil if they shouldn't wait for one.
func (x *indexer) join(tasks []task.Task, room func(int64) bool) <-chan struct{} {
	if x.refuses() || !room(weight(tasks)) {
		return nil
	}
	x.queued.Add(int64(len(tasks)))
	if done := x.puts.Submit(tasks); done != nil {
		return done
	}
	x.leave(tasks)
	return nil
}

// leave makes room again.
func (x *indexer) leave(tasks []task.Task) {
	x.queued.Add(-int64(len(tasks)))
	x.room.Release(weight(tasks))
}

// weight is what the tasks take of the room: a transaction of more than fits takes all of it.
func weight(tasks []task.Task) int64 { return int64(min(len(tasks), maxQueued)) }

func (x *indexer) refuses() bool {
	switch x.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		return x.queued.Load() > 0 // one put finds out whether the index is back; nobody waits for its answer
	default:
		return false
	}
}

// run puts until the indexer is closed, and closes the backlog then. The end of ctx makes the puts that are left fail at
// once.
func (x *indexer) run(ctx context.Context) {
	defer x.backlog.close()
	x.puts.Run(ctx)
	x.trials.Wait()
}

// close lets run end after the last put.
func (x *indexer) close() { x.puts.Close() }

// flush puts what some callers have committed, or hands it to the backlog. Where that takes several calls to the index, one is
// made while it takes another.
func (x *indexer) flush(ctx context.Context, groups [][]task.Task) ([]struct{}, error) {
	x.rest(groups)
	defer func() { x.ended = time.Now() }()
	var calls errgroup.Group
	calls.SetLimit(putCalls)
	stale := superseded(groups)
	for first := 0; first < len(groups); {
		end, n := first, 0
		for end < len(groups) && (n == 0 || n+len(groups[end]) <= putTasks) {
			n += len(groups[end])
			end++
		}
		some := groups[first:end]
		calls.Go(func() error { return x.flushSome(ctx, some, stale) })
		first = end
	}
	return nil, calls.Wait()
}

// rest has puts of few tasks begin apart, so that each is shared by more: what it costs both sides is mostly the call.
func (x *indexer) rest(groups [][]task.Task) {
	few := restMost
	for _, tasks := range groups {
		few -= len(tasks)
	}
	if few <= 0 || x.waiting.Load() > 0 {
		return
	}
	select {
	case <-x.hurry:
	case <-time.After(putRest - time.Since(x.ended)):
	}
}

// superseded tells which tasks of a flush come once more in a newer version. Calls of one flush have no order: a drop could
// overtake the put of its task's making.
func superseded(groups [][]task.Task) func(task.Task) bool {
	total := 0
	for _, tasks := range groups {
		total += len(tasks)
	}
	if total <= putTasks {
		return func(task.Task) bool { return false } // in one call the index takes the newest by itself
	}
	newest := make(map[task.ID]int64, total)
	for _, tasks := range groups {
		for _, t := range tasks {
			newest[t.ID] = max(newest[t.ID], t.Version)
		}
	}
	return func(t task.Task) bool { return t.Version < newest[t.ID] }
}

// flushSome is flush in one call to the index, of what is not stale.
func (x *indexer) flushSome(ctx context.Context, groups [][]task.Task, stale func(task.Task) bool) error {
	defer func() {
		for _, tasks := range groups {
			x.leave(tasks)
		}
	}()
	all := slices.Concat(groups...)
	tasks, doubted := x.doubts.part(slices.DeleteFunc(all, stale))
	x.putDoubted(ctx, doubted)
	if len(tasks) == 0 {
		return nil // somebody waited for those before
	}
	failed, err := x.breaker.Execute(func() ([]task.Task, error) { return x.tryPut(ctx, tasks) })
	if err != nil {
		count(x.m.puts, resultFailed, len(tasks))
		x.backlog.add(tasks)
		return err
	}
	x.putDoubted(ctx, failed)
	count(x.m.puts, resultOK, len(tasks)-len(failed))
	return nil
}

// tryPut returns the tasks of shards that failed while others did not: nobody else waits for their second try.
func (x *indexer) tryPut(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	failed, err := backoff.Retry(ctx, func() ([]task.Task, error) {
		ctx, cancel := context.WithTimeout(ctx, x.timeout)
		defer cancel()
		return x.putSound(ctx, tasks)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(putPause)), backoff.WithMaxTries(putTries))
	if err != nil {
		return nil, fmt.Errorf("put %d tasks: %w", len(tasks), err)
	}
	return failed, nil
}
