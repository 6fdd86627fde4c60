package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// tracerName is the package that makes the spans.
const tracerName = "github.com/duetime/duetime/pkg/worker"

// Worker runs tasks: it consumes the queues of the kinds in its Mux until told to stop.
type Worker struct {
	cfg      Config
	stream   Stream
	requests Requests
	limits   Limits
	looks    Looks
	clock    *loop.Clock
	settler  *settle.Settler
	holder   string // names this run
	gate     *settle.Gate
	metrics  *metrics
	letters  *letters
	hooks    *hooks
	queues   []*queue
	suspect  chan struct{} // full while a suspect runs, of whichever queue: one that ends the process would have others charged

	intake  context.Context //nolint:containedctx // Ends when no further message is to be taken in.
	stop    context.CancelCauseFunc
	started atomic.Bool

	lastPass atomic.Pointer[time.Time] // of the worker's own loop; nil before the first

	probed  time.Time // local time of the last probe
	timeout bool      // the last probe got no answer in time
}

// New makes a worker for the kinds in mux. stream may be nil if only Pass is called.
func New(cfg Config, mux *worker.Mux, store Store, stream Stream, index Index, dead Buryer) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if mux == nil || len(mux.Kinds()) == 0 {
		return nil, errors.New("worker: no kind has a handler")
	}
	byKind, hooks, refused := worker.Inside(inside.Key{}, mux)
	all := handlers(byKind)
	queues, err := cfg.read(mux, all)
	if err != nil {
		return nil, err
	}
	// A task may stand in another queue than its kind's: so the timeouts of all kinds count.
	if err := cmp.Or(cfg.checkTimeouts(all.infos(mux.Queues())), refused); err != nil {
		return nil, err
	}
	kinds := all.infos(queues)
	if err := cfg.Kinds.Handle(kinds); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	m := newMetrics(cfg.Metrics)
	w := &Worker{
		cfg: cfg, stream: stream, requests: store, limits: store, looks: store, clock: loop.NewClock(store.Clock, cfg.Logger, cfg.Metrics), metrics: m,
		letters: newLetters(dead, m, cfg.Logger), hooks: newHooks(hooks, m.hooks, cfg.Logger),
		suspect: make(chan struct{}, 1),
	}
	w.intake, w.stop = context.WithCancelCause(context.Background())
	w.holder = task.NewID().String()
	w.settler = settle.New(settle.Config{
		BatchTime: cfg.BatchTime, HandlerTimeout: cfg.HandlerTimeout, Patience: cfg.Patience, Holder: w.holder, Kinds: cfg.Kinds,
		BeforeSchedule: cfg.BeforeSchedule, Hooks: cfg.Hooks, OnUnknown: cfg.OnUnknown, OnEvents: w.hooks.adder(),
		Logger: cfg.Logger, Metrics: cfg.Metrics, Tracer: cfg.Tracer.Tracer(tracerName), OnStuck: w.stop,
	}, all, store, w.clock, index, w.letters)
	w.gate = w.settler.Gate()
	for _, name := range queues {
		q := newQueue(w, name, store, w.holder, kinds)
		q.looker.kinds = all.of(name)
		w.queues = append(w.queues, q)
	}
	return w, nil
}

// ID names this run of the worker in the rows that it writes.
func (w *Worker) ID() string { return w.holder }

// Calls returns the calls of handlers that have not returned, the longest first.
func (w *Worker) Calls() []protocol.Call { return w.settler.Calls() }

// Joined returns once every queue's group was joined for the first time, or with ctx's error.
func (w *Worker) Joined(ctx context.Context) error {
	for _, q := range w.queues {
		select {
		case <-q.joined:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Run works until ctx ends: then it takes nothing in any more, gives running handlers Config.Drain to finish, rolls back
// the rest uncharged, and returns nil. It commits the offsets of what was settled and leaves the groups before, after half a
// second at most, so that others have its partitions meanwhile. It returns an error only when it can't work: ErrStuck, or what
// the stream gave up with. It can be called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("worker: Run called twice")
	}
	defer context.AfterFunc(ctx, func() { w.stop(nil) })()
	defer w.stop(nil)
	if !w.firstProbe() {
		return nil
	}
	_ = w.applyRequests(w.intake) // a worker that starts while a queue is paused must not run its tasks; else it looks again soon
	l := newLifecycle()
	l.begin(w)
	<-w.intake.Done()
	l.end(w)
	if err := context.Cause(w.intake); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
