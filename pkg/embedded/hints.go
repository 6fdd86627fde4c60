package embedded

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
)

const (
	readInterval = 500 * time.Millisecond
	readAhead    = 2 * readInterval      // a task is read in the pass before the last one that can bring it in time
	readPage     = 1000                  // rows
	lateTime     = 25 * time.Millisecond // of reading late tasks between two looks at what comes due
	lately       = 5 * time.Second       // what is late by less need not wait behind a crowd that is late by more
	maxFetch     = 1000                  // hints
	maxWaiting   = 10_000                // hints of a queue that the worker has not fetched
	repeatAfter  = 10 * time.Second      // a task that is still pending then is brought once more: its hint may have expired
)

// hints brings due tasks to the worker of this process. It stands in for the index and for Kafka.
//
//  1. A pass reads the tasks that come due within readAhead, each once.
//  2. A task that is committed in this process for a moment before that is brought at its commit, by Put. The pass sets that
//     moment before it reads: it reads what was committed before, and Put brings what is committed later.
//  3. The pass also reads what is late: tasks of before the start, of other programs, and those whose hint has expired. Pages of it may
//     bring nothing, as those of a paused queue, or of one of another process: a pass goes on behind them for a while. If it
//     does not come to the end, the next one begins with what is late by little: it need not wait behind a crowd.
type hints struct {
	store *store.Store
	clock *loop.Clock
	log   *slog.Logger
	from  time.Time       // up to where coming tasks were read; zero before the first pass
	late  protocol.Cursor // where the next pass goes on among late tasks

	mu      sync.Mutex
	until   time.Time // tasks that are due before it are brought at their commit
	waiting map[string]*waiting
	brought map[version]time.Time // on the local clock
}

// waiting has the hints of one queue that the worker has not fetched.
type waiting struct {
	hints []protocol.Hint
	next  int64 // offset
	came  chan struct{}
}

// version is one version of a task.
type version struct {
	id     task.ID
	number int64
}

var _ engine.Stream = (*hints)(nil)

func newHints(st *store.Store, clock *loop.Clock, log *slog.Logger, queues []string) *hints {
	h := &hints{store: st, clock: clock, log: log, waiting: map[string]*waiting{}, brought: map[version]time.Time{}}
	for _, q := range queues {
		h.of(q)
	}
	return h
}

// run reads until ctx ends.
func (h *hints) run(ctx context.Context) error {
	return loop.Run(ctx, loop.Config{
		Name: "due tasks", Interval: readInterval, MaxBackoff: readInterval, Logger: h.log,
	}, h.pass)
}

// pass reads what comes due, and some of what is late.
func (h *hints) pass(ctx context.Context) (loop.Result, error) {
	except, err := h.except(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	floor, err := h.store.Floor(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	now := h.clock.Now()
	until := now.Add(readAhead)
	h.setUntil(until)
	if h.from.IsZero() {
		h.from = now
	}
	for after := (protocol.Cursor{}); ; {
		if _, after, err = h.read(ctx, except, h.from, until, after); err != nil {
			return loop.Result{}, err
		}
		if after == (protocol.Cursor{}) {
			break
		}
	}
	h.from = until
	if h.late != (protocol.Cursor{}) {
		if _, err := h.readLate(ctx, except, now.Add(-lately), now, new(protocol.Cursor)); err != nil {
			return loop.Result{}, err
		}
	}
	n, err := h.readLate(ctx, except, floor, now, &h.late)
	return loop.Result{More: n > 0 && h.late != (protocol.Cursor{})}, err
}

// readLate reads pages behind the cursor, which it moves, until the last one, for lateTime, or while a queue has room: tasks
// that it reads without room come only after all others. It returns how many tasks it has brought.
func (h *hints) readLate(ctx context.Context, except []string, from, to time.Time, behind *protocol.Cursor) (brought int, err error) {
	for began := time.Now(); time.Since(began) < lateTime && h.hasRoom(except); {
		n, next, err := h.read(ctx, except, from, to, *behind)
		if err != nil {
			return brought, err
		}
		brought += n
		if *behind = next; next == (protocol.Cursor{}) {
			break
		}
	}
	return brought, nil
}

// except returns the queues that get no hints: an operator has paused them, or the worker does not fetch fast enough.
func (h *hints) except(ctx context.Context) ([]string, error) {
	paused, err := h.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, w := range h.waiting {
		if len(w.hints) >= maxWaiting {
			paused[name] = time.Time{}
		}
	}
	return slices.Collect(maps.Keys(paused)), nil
}

// hasRoom reports whether one of the other queues takes the hints of a page.
func (h *hints) hasRoom(except []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, w := range h.waiting {
		if len(w.hints) <= maxWaiting-readPage && !slices.Contains(except, name) {
			return true
		}
	}
	return false
}

// setUntil also forgets what may be brought once more.
func (h *hints) setUntil(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
	maps.DeleteFunc(h.brought, func(_ version, at time.Time) bool { return time.Since(at) > repeatAfter })
}

// read brings the tasks of a page, and returns how many there were to bring, and where the next page begins.
func (h *hints) read(ctx context.Context, except []string, from, to time.Time, after protocol.Cursor) (n int, next protocol.Cursor, err error) {
	rows, next, err := h.store.PendingExcept(ctx, except, from, to, after, readPage)
	if err != nil {
		return 0, next, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bring(rows), next, nil
}

// bring adds hints of the tasks that were not brought lately; mu is held.
func (h *hints) bring(rows []task.Task) (n int) {
	for _, row := range rows {
		v, w := version{row.ID, row.Version}, h.waiting[row.Queue]
		if _, known := h.brought[v]; known || w == nil || len(w.hints) >= maxWaiting {
			continue
		}
		h.brought[v] = time.Now()
		w.hints = append(w.hints, protocol.Hint{
			ID: row.ID, Kind: protocol.HintKind(row.Kind), Owner: protocol.HintOwner(protocol.Route(row.Owner, row.OrderKey)), RunAt: row.RunAt.UnixMilli(),
			Version: protocol.WindowedVersion(row.Version),
		})
		loop.Rouse(w.came)
		n++
	}
	return n
}

// Put brings those of the tasks, committed just now, that no pass reads in time.
func (h *hints) Put(_ context.Context, tasks []task.Task) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bring(slices.DeleteFunc(slices.Clone(tasks), func(t task.Task) bool {
		return t.State != task.Pending || !t.RunAt.Before(h.until)
	}))
	return nil
}

// OwnerPage answers as an index without a memory: lists come from the database.
func (h *hints) OwnerPage(context.Context, int, string, string, string, int) ([]protocol.Entry, string, string, error) {
	return nil, "", "", nil
}

// Compensate does nothing: a pass reads the rows.
func (h *hints) Compensate(context.Context, protocol.Compensation) error { return nil }

// Consume gives the queue's hints to fn until ctx ends.
func (h *hints) Consume(ctx context.Context, queue string, fn func(ctx context.Context, s protocol.Session) error) error {
	return fn(ctx, session{h, h.of(queue)})
}

// of returns what waits in a queue, which the configuration may lack.
func (h *hints) of(queue string) *waiting {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiting[queue]
	if w == nil {
		w = &waiting{came: make(chan struct{}, 1)}
		h.waiting[queue] = w
	}
	return w
}

// Bury does nothing: the rows of dead tasks tell all that a dead letter would.
func (h *hints) Bury(context.Context, []protocol.DeadLetter) error { return nil }

// session is the worker's only one of a queue: one partition that is never lost.
type session struct {
	of      *hints
	waiting *waiting
}

func (s session) Share() protocol.Share                       { return protocol.Share{} }
func (s session) Brings(task.Task) bool                       { return true }
func (s session) Partitions() []int                           { return []int{0} }
func (s session) Commit(context.Context, map[int]int64) error { return nil }
func (s session) Lost() <-chan struct{}                       { return nil }

// Fetch waits until there is a hint.
func (s session) Fetch(ctx context.Context) ([]protocol.Delivery, error) {
	for {
		if ds := s.take(); len(ds) > 0 {
			return ds, nil
		}
		select {
		case <-s.waiting.came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s session) take() []protocol.Delivery {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	w := s.waiting
	ds := make([]protocol.Delivery, min(len(w.hints), maxFetch))
	for i := range ds {
		ds[i] = protocol.Delivery{Hint: w.hints[i], Offset: w.next}
		w.next++
	}
	w.hints = w.hints[len(ds):]
	return ds
}
