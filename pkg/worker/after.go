package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxQueuedWrites  = 25_600                // tasks that wait for the index, 256 batches of 100; more are left to the sweeps
	maxTasksPerWrite = 2000                  // in one call to the index
	writeInterval    = 50 * time.Millisecond // between writes of tasks that ended: the more in one, the less each costs Redis
	writeTries       = 2
	maxQueuedLetters = 5_000 // dead letters that wait for the dead topic, of at most 9 KiB
	maxPerLetterCall = 100
	letterInterval   = 200 * time.Millisecond
	letterTries      = 3
	afterTimeout     = time.Second // of one call to the index or the dead topic
)

// aftermath does what follows a commit and no task waits for: the index and the dead topic. Both are conveniences that
// the rows outlive, so that what finds its queue full is dropped and counted, never waited for.
type aftermath struct {
	index   Index
	dead    Buryer
	metrics *metrics
	log     *slog.Logger
	writes  *batcher.Batcher[task.Task, struct{}]
	letters *batcher.Batcher[task.DeadLetter, struct{}]
}

func newAftermath(index Index, dead Buryer, m *metrics, log *slog.Logger) *aftermath {
	a := &aftermath{index: index, dead: dead, metrics: m, log: log}
	// Tasks that ended wait for more: at most a hint too many is sent of one that a handler cancelled, and the sweeps don't
	// look yet. A task that is to fire again waits for nothing.
	bounds := batcher.Config[task.Task]{
		Calls: 1, Items: maxTasksPerWrite, Queue: maxQueuedWrites, Interval: writeInterval,
		Urgent: func(t task.Task) bool { return t.State == task.Pending },
	}
	a.writes = batcher.New(bounds, a.write)
	a.letters = batcher.New(batcher.Config[task.DeadLetter]{Calls: 1, Items: maxPerLetterCall, Queue: maxQueuedLetters}, a.send)
	return a
}

// Put queues an index write.
func (a *aftermath) Put(tasks []task.Task) {
	a.metrics.unindexed.Add(float64(a.writes.Add(tasks...)))
}

// Bury queues dead letters.
func (a *aftermath) Bury(letters []task.DeadLetter) {
	if len(letters) > 0 {
		a.metrics.unburied.Add(float64(a.letters.Add(letters...)))
	}
}

// run works until ctx ends and both queues are empty; the end of flushNow cancels calls in flight, and has the others fail.
func (a *aftermath) run(ctx, flushNow context.Context) {
	defer context.AfterFunc(ctx, func() {
		a.writes.Close()
		a.letters.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { a.writes.Run(flushNow) })
	both.Go(func() { a.letters.Run(flushNow) })
	both.Wait()
}

// flush does what is waiting, on the caller's goroutine.
func (a *aftermath) flush(ctx context.Context) {
	a.writes.Flush(ctx)
	a.letters.Flush(ctx)
}

// write has the index follow the tasks, in one call. A refused write is made once more.
func (a *aftermath) write(ctx context.Context, tasks []task.Task) ([]struct{}, error) {
	var err error
	for range writeTries {
		if err = a.limited(ctx, func(ctx context.Context) error { return a.index.Put(ctx, tasks) }); err == nil {
			return nil, nil
		}
	}
	a.metrics.unindexed.Add(float64(len(tasks)))
	a.log.WarnContext(ctx, "index write left to the sweeps", slog.Int("n", len(tasks)), slog.Any("err", err))
	return nil, err
}

// send passes dead letters on. After three refusals they are passed over: the rows say dead all the same.
func (a *aftermath) send(ctx context.Context, letters []task.DeadLetter) ([]struct{}, error) {
	var errs []error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := a.limited(ctx, func(ctx context.Context) error { return a.dead.Bury(ctx, letters) })
		if err != nil {
			errs = append(errs, err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(letterInterval)), backoff.WithMaxTries(letterTries))
	if err == nil {
		return nil, nil
	}
	a.metrics.unburied.Add(float64(len(letters)))
	for _, l := range letters {
		a.log.ErrorContext(ctx, "dead letter refused", slog.String("task_id", l.ID.String()),
			slog.String("kind", l.Kind), slog.Any("err", errors.Join(errs...)))
	}
	return nil, err
}

func (a *aftermath) limited(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, afterTimeout)
	defer cancel()
	return call(ctx)
}

// unreadable is the dead letter of a message that can't be decoded.
func unreadable(queue string, d task.Delivery) task.DeadLetter {
	return task.DeadLetter{Queue: queue, Error: d.Err.Error(), Raw: d.Raw}
}
