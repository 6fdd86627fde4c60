package embedded

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/worker"
)

// sqliteBatchTime bounds the handlers of a batch on SQLite, where a transaction blocks every other writer.
const sqliteBatchTime = 20 * time.Millisecond

// Work fires due tasks and runs the mux's handlers until ctx ends or Close is called. Then it takes no more tasks, lets
// running handlers finish for up to 8 s, and returns nil. It returns an error only when it can't work: ErrWorked at a
// second call, ErrClosed after Close, a mux without handlers, a kind whose queue is not in Config.Queues or whose timeout
// is above Config.HandlerTimeout, or worker.ErrStuck.
func (p *Pipeline) Work(ctx context.Context, mux *worker.Mux) error {
	if mux == nil {
		return errors.New("embedded: Work needs a mux")
	}
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.kinds.Restrict(p.cfg.Queues) // no leader publishes hints of other queues
	stages, err := p.stages(mux)
	if err != nil {
		return err
	}
	defer presence.Start(presence.Config{
		Role: "embedded", Queues: mux.Queues(), Kinds: mux.Kinds(), Logger: p.cfg.Logger,
	}, p.store).Stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, stage := range stages {
		group.Go(func() error { return stage(ctx) })
	}
	return group.Wait()
}

// begin records that Work runs; the caller calls done when Work returns.
func (p *Pipeline) begin(ctx context.Context) (working context.Context, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, nil, ErrClosed
	case p.stop != nil:
		return nil, nil, ErrWorked
	}
	working, p.stop = context.WithCancel(ctx)
	p.stopped = make(chan struct{})
	return working, func() {
		p.stop()
		close(p.stopped)
	}, nil
}

// stage does the work of one process of a full deployment, until its context ends.
type stage func(ctx context.Context) error

func (p *Pipeline) stages(mux *worker.Mux) ([]stage, error) {
	stages := []stage{p.clock.Run}
	for i := range p.cfg.Workers {
		w, err := p.worker(i, mux)
		if err != nil {
			return nil, err
		}
		stages = append(stages, w.Run)
	}
	for i := range p.cfg.Events {
		event, err := p.event(i)
		if err != nil {
			return nil, err
		}
		stages = append(stages, event)
	}
	daemon, err := p.daemon()
	if err != nil {
		return nil, err
	}
	return append(stages, daemon), nil
}

// event returns a candidate of the event election.
func (p *Pipeline) event(number int) (stage, error) {
	d, err := dispatch.New(dispatch.Config{
		Lead: p.cfg.Lead, Now: p.clock.Now, Layout: p.store.Layout, Logger: p.cfg.Logger, Metrics: p.metrics("event", number), Tracer: p.cfg.Tracer,
		Queues: p.cfg.Queues,
	}, p.index, p.stream)
	if err != nil {
		return nil, err
	}
	return p.stand("event", func(ctx context.Context, term *elect.Term) error {
		return d.Lead(ctx, term.Epoch, term)
	})
}

// daemon returns the stage that repairs the index.
func (p *Pipeline) daemon() (stage, error) {
	r, err := reconcile.New(reconcile.Config{
		Interval: p.cfg.Interval, Lookahead: time.Minute, Grace: p.cfg.Grace, Retention: p.cfg.Retention,
		Layout: p.store.Layout, Logger: p.cfg.Logger, Metrics: p.cfg.Metrics,
	}, daemonStore{p.store, p.epochs}, p.index, p.stream)
	if err != nil {
		return nil, err
	}
	return p.stand("daemon", func(ctx context.Context, term *elect.Term) error {
		return r.Lead(ctx, term.Epoch, term)
	})
}

// retryMax bounds how long a candidate that resigned stays out of the queue.
const retryMax = 3 * time.Second

func (p *Pipeline) stand(name string, lead func(context.Context, *elect.Term) error) (stage, error) {
	elector, err := elect.NewLocal(elect.Config{RetryMax: retryMax, Logger: p.cfg.Logger}, p.ballot, p.epochs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { _ = elector.Close() }() // it returns nil
		return elector.Lead(ctx, name, lead)
	}, nil
}

func (p *Pipeline) worker(number int, mux *worker.Mux) (*worker.Worker, error) {
	cfg := worker.Config{
		Concurrency: p.cfg.Concurrency, Batch: p.cfg.Batch, HandlerTimeout: p.cfg.HandlerTimeout, Drain: p.cfg.Drain,
		Limits: p.cfg.Limits, Kinds: p.kinds, BeforeSchedule: p.cfg.BeforeSchedule, Logger: p.cfg.Logger, Metrics: p.metrics("worker", number),
		Tracer: p.cfg.Tracer,
	}
	if p.store.Dialect() == store.SQLite {
		cfg.BatchTime = sqliteBatchTime
	}
	return worker.New(cfg, mux, p.worked, p.stream, p.Ledger().Writer(), p.stream)
}

// metrics labels the metrics of equal stages with their numbers.
func (p *Pipeline) metrics(stage string, number int) prometheus.Registerer {
	if p.cfg.Metrics == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{stage: strconv.Itoa(number)}, p.cfg.Metrics)
}
