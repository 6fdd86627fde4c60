package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/precise"
	"github.com/duetime/duetime/pkg/task"
)

const leaveTimeout = 500 * time.Millisecond // for each of the last things before the worker is gone

// Worker runs tasks: it consumes the queues of the kinds in its Mux until told to stop.
type Worker struct {
	Config
	mux     *Mux
	store   Store
	stream  Stream
	clock   *loop.Clock
	gate    *gate
	metrics *metrics
	holder  string // names this run where partitions are handed over, and in what it charges
	tracer  trace.Tracer
	after   *aftermath
	unknown *unhandled
	queues  []*queue
	closed  chan struct{} // wakes the tidying when the gate closes

	intake    context.Context //nolint:containedctx // Ends when no further message is to be taken in.
	stop      context.CancelCauseFunc
	abandoned atomic.Int64
	probed    time.Time // local time of the last probe
	late      bool      // the last probe got no answer in time
	started   atomic.Bool
}

// New makes a worker for the kinds in mux. stream may be nil if only Pass is called.
func New(cfg Config, mux *Mux, store Store, stream Stream, index Index, dead Buryer) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if mux == nil || len(mux.handlers) == 0 {
		return nil, errors.New("worker: no kind has a handler")
	}
	if err := cfg.Kinds.Handle(mux.infos()); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	m := newMetrics(cfg.Metrics, mux)
	w := &Worker{
		Config: cfg, mux: mux, store: store, stream: stream, clock: loop.NewClock(store.Clock, cfg.Logger, cfg.Metrics), gate: newGate(), metrics: m,
		tracer: cfg.Tracer.Tracer(tracerName), holder: task.NewID().String(),
		after: newAftermath(index, dead, m, cfg.Logger), closed: make(chan struct{}, 1),
		unknown: newUnhandled(cfg.Metrics, cfg.Logger),
	}
	w.intake, w.stop = context.WithCancelCause(context.Background())
	for _, name := range mux.Queues() {
		w.queues = append(w.queues, newQueue(w, name))
	}
	return w, nil
}

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
// the rest uncharged, commits the offsets of what was settled, leaves the groups, and returns nil. It returns an error
// only when it can't work: ErrStuck, or what the stream gave up with. It can be called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("worker: Run called twice")
	}
	defer context.AfterFunc(ctx, func() { w.stop(nil) })()
	defer w.stop(nil)
	if !w.firstProbe() {
		return nil
	}
	_ = w.obey(w.intake) // a worker that starts while a queue is paused must not run its tasks; else it looks again soon
	life := newLife()
	life.begin(w)
	<-w.intake.Done()
	life.end(w)
	if err := context.Cause(w.intake); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// life holds what Run started, by the order in which it must end.
type life struct {
	runners, tidying, consumers, aftermath *stage
	hurry                                  *stage // has no goroutine: its end has the aftermath finish without delay
}

// stage is some goroutines that end together.
type stage struct {
	sync.WaitGroup

	ctx   context.Context //nolint:containedctx // What its goroutines end by.
	cause context.CancelCauseFunc
}

// end ends the goroutines.
func (s *stage) end() { s.cause(nil) }

func newStage() *stage {
	s := &stage{}
	s.ctx, s.cause = context.WithCancelCause(context.Background())
	return s
}

// stop ends the goroutines and waits for them.
func (s *stage) stop() {
	s.end()
	s.Wait()
}

func newLife() *life {
	return &life{runners: newStage(), tidying: newStage(), consumers: newStage(), aftermath: newStage(), hurry: newStage()}
}

func (l *life) begin(w *Worker) {
	l.aftermath.Go(func() { w.after.run(l.aftermath.ctx, l.hurry.ctx) })
	l.tidying.Go(func() { w.tidy(l.tidying.ctx) })
	l.tidying.Go(func() { w.watch(l.tidying.ctx) })
	for _, q := range w.queues {
		for range w.Concurrency {
			l.runners.Go(func() { q.run(l.runners.ctx, hold.LaneBatch, w.Batch) })
			l.runners.Go(func() { q.run(l.runners.ctx, hold.LaneSingle, 1) })
		}
		for range (w.Concurrency + 1) / 2 {
			l.runners.Go(func() { q.run(l.runners.ctx, hold.LaneRetry, 1) })
		}
		l.runners.Go(func() { q.run(l.runners.ctx, hold.LaneSuspect, 1) })
		l.consumers.Go(func() {
			if err := w.stream.Consume(l.consumers.ctx, q.name, q.consume); err != nil && l.consumers.ctx.Err() == nil {
				w.stop(fmt.Errorf("consume queue %s: %w", q.name, err))
			}
		})
	}
}

// end stops the stages in the order of the flow, each when what feeds it has ended. The runners end by themselves; those
// that have not after Config.Drain are told.
func (l *life) end(w *Worker) {
	w.Logger.Info("worker draining")
	late := time.AfterFunc(w.Drain, func() {
		over := fmt.Errorf("%w of %v after the stop", errDrained, w.Drain)
		w.Logger.Warn("running handlers are rolled back, uncharged", slog.Any("err", over))
		l.runners.cause(over)
	})
	l.runners.Wait()
	late.Stop()
	l.runners.stop()
	l.tidying.stop()
	for _, q := range w.queues {
		q.leave()
	}
	l.consumers.stop()
	late = time.AfterFunc(leaveTimeout, l.hurry.end)
	l.aftermath.stop()
	late.Stop()
	l.hurry.stop()
}

// run is one runner: take, settle, give back.
func (q *queue) run(ctx context.Context, l hold.Lane, n int) {
	sleeper := precise.New()
	defer sleeper.Close()
	for q.gate.wait(q.intake) == nil {
		taken := q.hold.Take(q.intake, l, n)
		if len(taken) == 0 {
			return
		}
		b := &batch{Worker: q.Worker, hints: taken, sleeper: sleeper}
		b.settle(ctx)
		q.refund(q.hold.Release(taken))
	}
}

// leave commits what was settled, and gives back the charges of what was not.
func (q *queue) leave() {
	q.mu.Lock()
	g := q.gen
	q.mu.Unlock()
	if g == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := g.offsets.Commit(ctx); err != nil {
		q.Logger.Warn("last offsets not committed", slog.String("queue", q.name), slog.Any("err", err))
	}
}

// pause closes the gate: MySQL is away.
func (w *Worker) pause(ctx context.Context, err error) {
	if !w.gate.close(w.clock.Local()) {
		return
	}
	w.metrics.pauses.Inc()
	w.Logger.WarnContext(ctx, "paused, database is away", slog.Any("err", err))
	select {
	case w.closed <- struct{}{}:
	default:
	}
}

// abandon counts a handler that ignores the end of its context; after a few of them the process is worth nothing.
func (w *Worker) abandon(ctx context.Context, kind string) {
	w.metrics.abandoned.Inc()
	w.Logger.ErrorContext(ctx, "handler abandoned", slog.String("kind", kind))
	if w.abandoned.Add(1) >= abandonAt {
		w.stop(fmt.Errorf("%w: the last one was of kind %s", ErrStuck, kind))
	}
}

// tidy probes the clock and opens the gate, and lets go of what is stuck.
func (w *Worker) tidy(ctx context.Context) {
	cfg := loop.Config{Name: "worker", Interval: tidyEvery, Wake: w.closed, Succeeded: w.metrics.tidied.SetToCurrentTime, Logger: w.Logger}
	_ = loop.Run(ctx, cfg, w.tidyPass) // it ends with ctx alone
}

func (w *Worker) tidyPass(ctx context.Context) (loop.Result, error) {
	closed, wait := w.gate.rest(w.clock.Local())
	switch {
	case closed && wait > 0:
		return loop.Result{Next: wait}, nil
	case closed || w.clock.Local().Sub(w.probed) >= clockEvery:
		err := w.probe(ctx)
		late := !closed && !w.late && errors.Is(err, context.DeadlineExceeded)
		if w.late = late; late {
			return loop.Result{Next: pauseLeast}, nil // once may be a hiccup
		}
		if err != nil && ctx.Err() == nil {
			w.pause(ctx, err)
			w.gate.again(w.clock.Local())
			return loop.Result{Next: pauseLeast}, nil
		}
		if closed && err == nil {
			w.resume(ctx)
		}
	}
	held := 0
	for _, q := range w.queues {
		q.hold.AdjustForClockStep(w.Patience)
		if !closed && !q.hold.Paused() {
			w.metrics.letGo.WithLabelValues("stuck").Add(float64(q.hold.Expire(w.Patience)))
		}
		held += q.hold.Len()
	}
	w.metrics.held.Set(float64(held))
	return loop.Result{}, nil
}

func (w *Worker) resume(ctx context.Context) {
	for _, q := range w.queues {
		q.hold.ResetPatience()
	}
	w.gate.open()
	w.Logger.InfoContext(ctx, "resumed, database is back")
}

// probe learns the database's clock.
func (w *Worker) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockEvery)
	defer cancel()
	if err := w.clock.Learn(ctx); err != nil {
		return err
	}
	w.probed = w.clock.Local()
	return nil
}

// firstProbe waits for the database: without its clock there is no telling what is due.
func (w *Worker) firstProbe() bool {
	cfg := loop.Config{Name: "worker clock", MaxBackoff: pauseMost, Logger: w.Logger}
	ctx, known := context.WithCancel(w.intake)
	defer known()
	_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // it ends with ctx alone
		if err := w.probe(ctx); err != nil {
			return loop.Result{}, err
		}
		known()
		return loop.Result{}, nil
	})
	return w.intake.Err() == nil
}
