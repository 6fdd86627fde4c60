package indexwriter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/pkg/task"
)

const (
	maxTasksPerCall = 2000 // fast enough for Config.PutTimeout on a busy machine
	concurrentCalls = 2    // calls to the index: one is made while the index takes another
	maxTries        = 2    // of one call
	retryInterval   = 20 * time.Millisecond

	smallFlush     = 100                  // tasks; smaller flushes wait for minPutInterval
	minPutInterval = 5 * time.Millisecond // from one flush to the next: what a small put costs both sides is mostly the call
)

// flush puts what some callers have handed over, or has it compensated.
func (w *Writer) flush(ctx context.Context, groups [][]task.Task) ([]struct{}, error) {
	w.spaceSmallFlush(groups)
	defer func() { w.lastFlush = time.Now() }()
	var calls errgroup.Group
	calls.SetLimit(concurrentCalls)
	superseded := findSuperseded(groups)
	for first := 0; first < len(groups); {
		end, n := first, 0
		for end < len(groups) && (n == 0 || n+len(groups[end]) <= maxTasksPerCall) {
			n += len(groups[end])
			end++
		}
		some := groups[first:end]
		calls.Go(func() error { return w.put(ctx, some, superseded) })
		first = end
	}
	return nil, calls.Wait()
}

// spaceSmallFlush has flushes of few tasks begin apart, so that each has more of them, unless a caller waits.
func (w *Writer) spaceSmallFlush(groups [][]task.Task) {
	if countTasks(groups) >= smallFlush || w.waiting.Load() > 0 {
		return
	}
	select {
	case <-w.callerCame:
	case <-time.After(minPutInterval - time.Since(w.lastFlush)):
	}
}

func countTasks(groups [][]task.Task) (n int) {
	for _, tasks := range groups {
		n += len(tasks)
	}
	return n
}

// findSuperseded tells which tasks of a flush come once more in a newer version. The calls of one flush have no order: a drop
// could overtake the put of its task's making.
func findSuperseded(groups [][]task.Task) func(task.Task) bool {
	total := countTasks(groups)
	if total <= maxTasksPerCall {
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

// put puts the tasks that are not superseded in one call, and makes room.
func (w *Writer) put(ctx context.Context, groups [][]task.Task, superseded func(task.Task) bool) error {
	defer func() {
		for _, tasks := range groups {
			w.dequeue(tasks)
		}
	}()
	tasks, failing := w.shards.split(slices.DeleteFunc(slices.Concat(groups...), superseded))
	w.probe(ctx, failing)
	if len(tasks) == 0 {
		return nil // WaitForEarlierPuts hands over none
	}
	failed, err := w.breaker.Execute(func() ([]task.Task, error) { return w.callTwice(ctx, tasks) })
	if err != nil {
		count(w.metrics.puts, resultFailed, len(tasks))
		w.compensations.add(tasks)
		return err
	}
	w.probe(ctx, failed)
	count(w.metrics.puts, resultOK, len(tasks)-len(failed))
	return nil
}

// callTwice is call with a second try for an error of all tasks. Tasks of failing shards have theirs in a probe, for which
// nobody else waits.
func (w *Writer) callTwice(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	failed, err := backoff.Retry(ctx, func() ([]task.Task, error) {
		ctx, cancel := context.WithTimeout(ctx, w.putTimeout)
		defer cancel()
		return w.call(ctx, tasks)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(retryInterval)), backoff.WithMaxTries(maxTries))
	if err != nil {
		return nil, fmt.Errorf("put %d tasks: %w", len(tasks), err)
	}
	return failed, nil
}

// call puts tasks in one call, and returns those of the shards that failed while others did not. An error is of all tasks.
func (w *Writer) call(ctx context.Context, tasks []task.Task) (failed []task.Task, err error) {
	err = w.index.Put(ctx, tasks)
	shards, partial := task.FailedShards(err)
	if !partial {
		return nil, err
	}
	return inShards(tasks, shards), nil
}

func inShards(tasks []task.Task, shards map[int]error) (found []task.Task) {
	for _, t := range tasks {
		if shards[t.Shard] != nil {
			found = append(found, t)
		}
	}
	return found
}
