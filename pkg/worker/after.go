package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	afterQueue   = 256                   // batches waiting for the index before further ones are left to the sweeps
	maxPutTasks  = 2000                  // tasks in one write to the index
	afterTimeout = time.Second           // of one write to the index or the dead topic
	afterPause   = 50 * time.Millisecond // between writes of tasks that ended: the more in one, the less each costs Redis
	letterPause  = 200 * time.Millisecond
	letterTries  = 3
)

// aftermath does what follows a commit and no task waits for: the index and the dead topic. Both are conveniences that
// the rows outlive, so that a full queue is dropped and counted, never waited for.
type aftermath struct {
	index   Index
	dead    Buryer
	metrics *metrics
	log     *slog.Logger
	puts    chan []task.Task
	letters chan []task.DeadLetter
}

func newAftermath(index Index, dead Buryer, m *metrics, log *slog.Logger) *aftermath {
	return &aftermath{
		index: index, dead: dead, metrics: m, log: log,
		puts: make(chan []task.Task, afterQueue), letters: make(chan []task.DeadLetter, afterQueue),
	}
}

// Put hands the tasks to the index. Where too many wait, they are counted and left to the sweeps.
func (a *aftermath) Put(tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	select {
	case a.puts <- tasks:
	default:
		a.metrics.unindexed.Add(float64(len(tasks)))
	}
}

// Bury hands the letters to the dead topic. Where too many wait, they are counted and dropped.
func (a *aftermath) Bury(letters []task.DeadLetter) {
	if len(letters) == 0 {
		return
	}
	select {
	case a.letters <- letters:
	default:
		a.metrics.unburied.Add(float64(len(letters)))
	}
}

// run works until ctx ends and both queues are empty; the end of calls cancels those in flight.
func (a *aftermath) run(ctx, calls context.Context) {
	var both sync.WaitGroup
	var written time.Time
	both.Go(func() {
		drain(ctx, a.puts, func(first []task.Task) {
			tasks := a.gather(ctx, first, afterPause-time.Since(written))
			written = time.Now()
			a.write(calls, tasks)
		})
	})
	both.Go(func() { drain(ctx, a.letters, func(ls []task.DeadLetter) { a.send(calls, ls) }) })
	both.Wait()
}

// flush does what is waiting, on the caller's goroutine.
func (a *aftermath) flush(ctx context.Context) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	drain(ended, a.puts, func(first []task.Task) { a.write(ctx, a.gather(ended, first, 0)) })
	drain(ended, a.letters, func(ls []task.DeadLetter) { a.send(ctx, ls) })
}

func drain[T any](ctx context.Context, queue <-chan T, do func(T)) {
	for {
		select {
		case x := <-queue:
			do(x)
			continue
		default:
		}
		select {
		case x := <-queue:
			do(x)
		case <-ctx.Done():
			return
		}
	}
}

// gather adds to the batch what waits behind it, up to what one write takes. Tasks that ended wait for more until the pause
// is over or ctx ends: at most a hint too many is sent of one that a handler cancelled, and the sweeps don't look yet.
func (a *aftermath) gather(ctx context.Context, first []task.Task, pause time.Duration) []task.Task {
	tasks := slices.Clip(first)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for len(tasks) < maxPutTasks {
		more := a.next(ctx, slices.ContainsFunc(tasks, pending), timer.C)
		if more == nil {
			break
		}
		tasks = append(tasks, more...)
	}
	return tasks
}

// write tells the index of the tasks, in one call.
func (a *aftermath) write(ctx context.Context, tasks []task.Task) {
	err := a.once(ctx, func(ctx context.Context) error { return a.index.Put(ctx, tasks) })
	if err != nil {
		err = a.once(ctx, func(ctx context.Context) error { return a.index.Put(ctx, tasks) })
	}
	if err != nil {
		a.metrics.unindexed.Add(float64(len(tasks)))
		a.log.WarnContext(ctx, "index write left to the sweeps", slog.Int("n", len(tasks)), slog.Any("err", err))
	}
}

// next returns a batch that waits for the index; nil if none comes until the pause is over, or if none is there and it is urgent.
func (a *aftermath) next(ctx context.Context, urgent bool, pause <-chan time.Time) []task.Task {
	select {
	case tasks := <-a.puts:
		return tasks
	default:
	}
	if urgent {
		return nil
	}
	select {
	case tasks := <-a.puts:
		return tasks
	case <-pause:
		return nil
	case <-ctx.Done():
		return nil // no more comes
	}
}

func pending(t task.Task) bool { return t.State == task.Pending }

func (a *aftermath) once(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, afterTimeout)
	defer cancel()
	return do(ctx)
}

// send passes dead letters on. After three refusals they are passed over: the rows say dead all the same.
func (a *aftermath) send(ctx context.Context, letters []task.DeadLetter) {
	var errs []error
	for range letterTries {
		err := a.once(ctx, func(ctx context.Context) error { return a.dead.Bury(ctx, letters) })
		if err == nil {
			return
		}
		errs = append(errs, err)
		loop.Sleep(ctx, letterPause)
	}
	a.metrics.unburied.Add(float64(len(letters)))
	for _, l := range letters {
		a.log.ErrorContext(ctx, "dead letter refused", slog.String("task_id", l.ID.String()),
			slog.String("kind", l.Kind), slog.Any("err", errors.Join(errs...)))
	}
}

// unreadable is the dead letter of a message that can't be decoded.
func unreadable(queue string, d task.Delivery) task.DeadLetter {
	return task.DeadLetter{Queue: queue, Error: d.Err.Error(), Raw: d.Raw}
}
