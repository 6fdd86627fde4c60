package indexwriter

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxCallersPerFlush = 256 // callers whose tasks one flush puts
	tasksPerWait       = 100 // tasks for each of which a caller waits another Config.CallerWait
)

// Index takes the current state of tasks. Put ignores versions older than the entry's. It returns nil only if all tasks
// were taken. If a task is given twice, the higher version counts.
type Index interface {
	Put(ctx context.Context, tasks []task.Task) error
}

// Compensator sends the ids of tasks that the daemon is to put.
type Compensator interface {
	Compensate(ctx context.Context, c protocol.Compensation) error
}

// Config tunes a Writer. Every field but Metrics must be set.
type Config struct {
	CallerWait time.Duration // how long a caller waits for its put
	PutTimeout time.Duration // of one call to the index
	Backlog    int           // ids that may wait for compensation; further ids are dropped

	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Writer puts committed tasks into the index. Concurrent callers share puts: the slower the index, the larger the puts. A
// Writer is safe for concurrent use.
type Writer struct {
	index         Index
	compensations *compensations
	metrics       metrics
	callerWait    time.Duration
	putTimeout    time.Duration

	breaker *gobreaker.CircuitBreaker[[]task.Task] // of the index as a whole
	shards  shardBreakers
	probing *semaphore.Weighted // one probe of failing shards at a time
	probes  sync.WaitGroup

	puts        *batcher.Batcher[group, struct{}]
	room        *semaphore.Weighted // of maxQueuedTasks
	lateRoom    *semaphore.Weighted // of maxLateDrops
	queuedTasks atomic.Int64        // tasks that wait for a flush, or are in one, but for late drops
	waiting     atomic.Int64        // callers that wait for a put
	callerCame  chan struct{}       // capacity 1: a caller has begun to wait
	lastFlush   time.Time           // when the last flush ended; used by flush only
}

// New makes a writer; Run makes its calls.
func New(cfg Config, index Index, compensator Compensator) *Writer {
	m := newMetrics(cfg.Metrics)
	w := &Writer{
		index: index, compensations: newCompensations(cfg, compensator, m), metrics: m,
		callerWait: cfg.CallerWait, putTimeout: cfg.PutTimeout,
		breaker: newIndexBreaker(cfg.Logger), shards: shardBreakers{logger: cfg.Logger}, probing: semaphore.NewWeighted(1),
		room: semaphore.NewWeighted(maxQueuedTasks), lateRoom: semaphore.NewWeighted(maxLateDrops), callerCame: make(chan struct{}, 1),
	}
	// One flush at a time: a cancel's drop must not overtake the put of its task, and WaitForEarlierPuts waits for one
	// flush.
	w.puts = batcher.New(batcher.Config[group]{
		Calls: 1, Items: maxCallersPerFlush, Interval: lateDropInterval, Urgent: func(g group) bool { return !g.late },
	}, w.flush)
	return w
}

// Run puts and compensates until the writer is closed and nothing waits. After the end of ctx the remaining calls fail
// at once.
func (w *Writer) Run(ctx context.Context) {
	var compensating sync.WaitGroup
	compensating.Go(func() { w.compensations.ids.Run(ctx) })
	w.puts.Run(ctx)
	w.probes.Wait()
	w.compensations.ids.Close() // after the puts: failed puts are compensated
	compensating.Wait()
}

// Close lets Run end after the last put. Later tasks are dropped and counted.
func (w *Writer) Close() { w.puts.Close() }

// Enqueue hands tasks over that are put in the background. It returns at once while there is room for them. Otherwise it waits for
// room: for at most Config.CallerWait, and another CallerWait for each tasksPerRoomWait tasks. This bound is longer than the wait for a
// put, so that callers that schedule faster than the index accepts are slowed down. Otherwise the daemon would have to read all their
// rows. Room is freed when a flush ends, even if the flush failed. The channel is that of enqueue.
func (w *Writer) Enqueue(ctx context.Context, tasks []task.Task) <-chan struct{} {
	if len(tasks) == 0 {
		return nil
	}
	return w.enqueue(group{tasks: tasks}, func(n int64) bool {
		if w.room.TryAcquire(n) { // also if ctx has ended
			return true
		}
		ctx, cancel := context.WithTimeout(ctx, w.callerWait*time.Duration(1+len(tasks)/tasksPerRoomWait))
		defer cancel()
		return w.room.Acquire(ctx, n) == nil
	})
}

// Offer hands over what a worker's batch has changed. It never waits: tasks for which there is no room are compensated. Tasks that all
// have ended wait for others, up to lateDropInterval: the more a put has, the less each costs Redis. At most a hint too many is sent of
// such a task, and no list of this client waits for it.
func (w *Writer) Offer(tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	late := !slices.ContainsFunc(tasks, func(t task.Task) bool { return t.State == task.Pending })
	g := group{tasks, late}
	w.enqueue(g, w.roomOf(g).TryAcquire)
}

// PutAndWait hands tasks over and waits until they were put: for at most Config.CallerWait, and another CallerWait for
// each tasksPerWait tasks. It first waits for room as Enqueue does.
func (w *Writer) PutAndWait(ctx context.Context, tasks []task.Task) {
	w.await(ctx, w.Enqueue(ctx, tasks), len(tasks))
}

// PutDirectly puts the tasks of a batch of changes on this goroutine, for at most Config.CallerWait. Tasks whose put
// fails are put again in the background. If other puts wait, these tasks join them: a waiting put may be the first put
// of a task, which must not come after the drop of the task's cancel.
func (w *Writer) PutDirectly(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	if w.queuedTasks.Load() > 0 {
		w.PutAndWait(ctx, tasks)
		return
	}
	if _, failing := w.shards.split(tasks); len(failing) == 0 && w.breaker.State() == gobreaker.StateClosed {
		ctx, cancel := context.WithTimeout(ctx, w.callerWait)
		defer cancel()
		if failed, err := w.breaker.Execute(func() ([]task.Task, error) { return w.call(ctx, tasks) }); err == nil {
			count(w.metrics.puts, resultOK, len(tasks)-len(failed))
			if tasks = failed; len(tasks) == 0 {
				return
			}
		}
	}
	w.enqueue(group{tasks: tasks}, w.room.TryAcquire)
}

// WaitForEarlierPuts waits until all tasks handed over so far were put, for at most Config.CallerWait.
func (w *Writer) WaitForEarlierPuts(ctx context.Context) {
	if w.queuedTasks.Load() > 0 {
		w.await(ctx, w.puts.Submit(group{}), 0) // flushes run one after the other
	}
}

// Compensate sends the ids of tasks to the daemon if it is not known whether they were committed. It never waits.
func (w *Writer) Compensate(tasks []task.Task) { w.compensations.add(tasks) }

// await waits for a put, if put is not nil, for as long as a caller of this many tasks waits.
func (w *Writer) await(ctx context.Context, put <-chan struct{}, tasks int) {
	if put == nil {
		return
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	select {
	case w.callerCame <- struct{}{}:
	default:
	}
	limit := time.NewTimer(w.callerWait * time.Duration(1+tasks/tasksPerWait))
	defer limit.Stop()
	select {
	case <-put:
	case <-limit.C:
	case <-ctx.Done():
	}
}
