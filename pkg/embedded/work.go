package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/worker"
)

// sqliteBatchTime bounds the handlers of a batch on SQLite, where a transaction blocks every other writer.
const sqliteBatchTime = 20 * time.Millisecond

// Work fires due tasks and runs the mux's handlers until ctx ends or Close is called. Then it takes no more tasks, lets
// running handlers finish for up to Config.Drain, and returns nil. It returns an error only when it can't work: ErrWorked at a
// second call, ErrClosed after Close, a mux without handlers, a kind whose queue is neither in Config.Queues nor was
// added by an operator, or whose timeout is above Config.HandlerTimeout, or worker.ErrStuck.
func (p *Pipeline) Work(ctx context.Context, mux *worker.Mux) error {
	if mux == nil {
		return errors.New("embedded: Work needs a mux")
	}
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.kinds.Restrict(p.cfg.Queues) // nothing reads hints of other queues
	w, stages, err := p.stages(mux)
	if err != nil {
		return err
	}
	if err := p.kinds.CheckHandled(func(queue string) (bool, error) { return p.store.HoldQueue(ctx, p.DB(), queue) }); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	defer presence.Start(presence.Config{
		ID: w.ID(), Role: "embedded", Configured: p.cfg.Queues, Queues: mux.Queues(), Kinds: mux.Kinds(), Calls: w.Calls, Logger: p.cfg.Logger,
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

// stage does a part of the work until its context ends.
type stage func(ctx context.Context) error

// workerConfig is what the configuration says about running tasks.
func (p *Pipeline) workerConfig() engine.Config {
	cfg := engine.Config{
		Concurrency: p.cfg.Concurrency, Batch: p.cfg.Batch, HandlerTimeout: p.cfg.HandlerTimeout, Drain: p.cfg.Drain,
		Late:   -1, // hints reads what is late
		Limits: p.cfg.Limits, Kinds: p.kinds, BeforeSchedule: p.cfg.BeforeSchedule,
		Logger: p.cfg.Logger, Metrics: p.cfg.Metrics, Tracer: p.cfg.Tracer,
	}
	if p.store.Dialect() == store.SQLite {
		cfg.BatchTime = sqliteBatchTime
	}
	return cfg
}

func (p *Pipeline) stages(mux *worker.Mux) (*engine.Worker, []stage, error) {
	ledger, cfg := schedule.InsideClient(inside.Key{}, p.Client).Ledger(), p.workerConfig()
	cfg.Hooks = ledger.Hooks()
	w, err := engine.New(cfg, mux, p.worked, p.hints, ledger.Writer(), p.hints)
	if err != nil {
		return nil, nil, err
	}
	r, err := reconcile.New(reconcile.Config{
		Interval: p.cfg.Interval, Grace: p.cfg.Grace, Retention: p.cfg.Retention, RetentionByKind: p.cfg.RetentionByKind, Queues: p.cfg.Queues,
		Layout: p.store.Layout, Hooks: ledger.Hooks(), Logger: p.cfg.Logger, Metrics: p.cfg.Metrics,
	}, p.store, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return w, []stage{p.clock.Run, w.Run, p.hints.run, func(ctx context.Context) error {
		return r.Lead(ctx, math.MaxInt64, nil) // no epoch fences it: processes that do the same meet in the rows' locks
	}}, nil
}
