package indexwriter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxTasksPerCall = 2000 // a larger call could exceed Config.PutTimeout on a busy machine
	concurrentCalls = 2    // one call is prepared while the index runs the other
	maxTries        = 2    // of one call
	retryInterval   = 20 * time.Millisecond

	smallFlush     = 100                  // tasks; smaller flushes wait for minPutInterval
	minPutInterval = 5 * time.Millisecond // from one flush to the next: most of a small put's cost is the call itself

	lateDropInterval = 50 * time.Millisecond // from one flush to one of late drops alone
)

// flush puts the tasks of some callers, or compensates them.
func (w *Writer) flush(ctx context.Context, groups []group) ([]struct{}, error) {
	w.spaceSmallFlush(groups)
	defer func() { w.lastFlush = time.Now() }()
	var calls errgroup.Group
	calls.SetLimit(concurrentCalls)
	superseded := findSuperseded(groups)
	for first := 0; first < len(groups); {
		end, n := first, 0
		for end < len(groups) && (n == 0 || n+len(groups[end].tasks) <= maxTasksPerCall) {
			n += len(groups[end].tasks)
			end++
		}
		some := groups[first:end]
		calls.Go(func() error { return w.put(ctx, some, superseded) })
		first = end
	}
	return nil, calls.Wait()
}

// spaceSmallFlush delays a small flush until minPutInterval after the last one, so that it gathers more tasks, unless a
// caller waits.
func (w *Writer) spaceSmallFlush(groups []group) {
	if countTasks(groups) >= smallFlush || w.waiting.Load() > 0 {
		return
	}
	select {
	case <-w.callerCame:
	case <-time.After(minPutInterval - time.Since(w.lastFlush)):
	}
}

func countTasks(groups []group) (n int) {
	for _, g := range groups {
		n += len(g.tasks)
	}
	return n
}

// findSuperseded finds tasks that are in the flush in a newer version too. The calls of one flush have no order: without
// this a cancel's drop could overtake the put of its task.
func findSuperseded(groups []group) func(task.Task) bool {
	total := countTasks(groups)
	if total <= maxTasksPerCall {
		return func(task.Task) bool { return false } // within one call the index takes the newest version by itself
	}
	newest := make(map[task.ID]int64, total)
	for _, g := range groups {
		for _, t := range g.tasks {
			newest[t.ID] = max(newest[t.ID], t.Version)
		}
	}
	return func(t task.Task) bool { return t.Version < newest[t.ID] }
}

// put puts the tasks that are not superseded in one call, and frees their room.
func (w *Writer) put(ctx context.Context, groups []group, superseded func(task.Task) bool) error {
	defer func() {
		for _, g := range groups {
			w.dequeue(g)
		}
	}()
	all := make([]task.Task, 0, countTasks(groups))
	for _, g := range groups {
		all = append(all, g.tasks...)
	}
	tasks, failing := w.shards.split(slices.DeleteFunc(all, superseded))
	w.probe(ctx, failing)
	if len(tasks) == 0 {
		return nil // the items of WaitForEarlierPuts have no tasks
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

// callTwice is call with a retry if all tasks failed. Tasks of failing shards are retried by a probe, so that no other
// task waits for them.
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

// call puts tasks in one call. If some shards failed and others did not, it returns the tasks of the failed shards. An
// error means that all tasks failed.
func (w *Writer) call(ctx context.Context, tasks []task.Task) (failed []task.Task, err error) {
	err = w.index.Put(ctx, tasks)
	shards, partial := protocol.FailedShards(err)
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
