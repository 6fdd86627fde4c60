package embedded

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/verify"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// sqliteBatchTime is how long a batch's handlers may take on SQLite, where a transaction stops every other writer.
const sqliteBatchTime = 20 * time.Millisecond

// Work fires due tasks and runs the mux's handlers until ctx ends or Close is called; then it takes no more, lets running
// handlers finish for up to 8 s, and returns nil. It returns an error only when it can't work: ErrWorked at a second call,
// ErrClosed after Close, a mux without handlers, or worker.ErrStuck.
func (p *Pipeline) Work(ctx context.Context, mux *worker.Mux) error {
	if mux == nil {
		return errors.New("embedded: Work needs a mux")
	}
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	stages, err := p.stages(mux)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, stage := range stages {
		group.Go(func() error { return stage(ctx) })
	}
	return group.Wait()
}

// begin notes that Work runs; done is to be called when it returns.
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

// stage is one of the processes that a pipeline has in one; it runs until its context ends.
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

// event is a candidate for firing.
func (p *Pipeline) event(number int) (stage, error) {
	d, err := dispatch.New(dispatch.Config{
		Lead: p.cfg.Lead, Now: p.clock.Now, Shards: p.shards, Logger: p.cfg.Logger, Metrics: p.metrics("event", number),
	}, p.index, p.stream)
	if err != nil {
		return nil, err
	}
	return p.stand("event", func(ctx context.Context, term *elect.Term) error {
		return unlessFenced(d.Lead(ctx, term.Epoch, term))
	})
}

// daemon is the one that repairs.
func (p *Pipeline) daemon() (stage, error) {
	r, err := reconcile.New(reconcile.Config{
		Interval: p.cfg.Interval, Grace: p.cfg.Grace, Lead: p.cfg.Lead, Retention: p.cfg.Retention,
		Shards: p.shards, Logger: p.cfg.Logger, Metrics: p.cfg.Metrics,
	}, daemonStore{p.store, p.epochs}, p.index, daemonStream{p.stream})
	if err != nil {
		return nil, err
	}
	return p.stand("daemon", func(ctx context.Context, term *elect.Term) error {
		return unlessFenced(r.Lead(ctx, term.Epoch, term))
	})
}

func (p *Pipeline) stand(name string, lead func(context.Context, *elect.Term) error) (stage, error) {
	elector, err := elect.NewLocal(elect.Config{Logger: p.cfg.Logger}, p.ballot, p.epochs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { _ = elector.Close() }() // it returns nil
		return elector.Lead(ctx, name, lead)
	}, nil
}

// unlessFenced drops the error of a fenced term: the elector was told.
func unlessFenced(err error) error {
	if errors.Is(err, dispatch.ErrFenced) || errors.Is(err, reconcile.ErrFenced) {
		return nil
	}
	return err
}

func (p *Pipeline) worker(number int, mux *worker.Mux) (*worker.Worker, error) {
	cfg := worker.Config{
		Concurrency: p.cfg.Concurrency, Batch: p.cfg.Batch, HandlerTimeout: p.cfg.HandlerTimeout,
		Logger: p.cfg.Logger, Metrics: p.metrics("worker", number),
	}
	if p.store.Dialect() == store.SQLite {
		cfg.BatchTime = sqliteBatchTime
	}
	return worker.New(cfg, mux, p.worked, consumer{p.stream}, p.index, p.stream)
}

// metrics tells the metrics of equal stages apart.
func (p *Pipeline) metrics(stage string, number int) prometheus.Registerer {
	if p.cfg.Metrics == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{stage: strconv.Itoa(number)}, p.cfg.Metrics)
}

// shards gives how many shards must be polled: as many as there have ever been.
func (p *Pipeline) shards(ctx context.Context) (int, error) {
	highest, err := p.store.MaxShard(ctx)
	return highest + 1, err
}

// newShards gives over how many shards new rows spread.
func (p *Pipeline) newShards(ctx context.Context) (int, error) {
	layout, err := p.store.Layout(ctx)
	return layout.Shards, err
}

// consumer narrows the stream's sessions to what a worker needs of them.
type consumer struct{ stream *stream.Local }

func (c consumer) Consume(ctx context.Context, queue string, fn func(ctx context.Context, s worker.Session) error) error {
	return c.stream.Consume(ctx, queue, func(ctx context.Context, s stream.Session) error { return fn(ctx, s) })
}

// daemonStream narrows the stream to what reconcile needs.
type daemonStream struct{ stream *stream.Local }

func (d daemonStream) Backlog(ctx context.Context, queue string) (reconcile.Backlog, error) {
	return d.stream.Backlog(ctx, queue)
}

func (d daemonStream) Compensations(ctx context.Context, fn func(context.Context, []task.Compensation) error) error {
	return d.stream.Compensations(ctx, fn)
}

// Drill is for practising outages: it breaks the pipeline's own parts, which then heal by themselves.
type Drill struct{ p *Pipeline }

// Drill gives the drill of this pipeline.
func (p *Pipeline) Drill() Drill { return Drill{p} }

// FlushIndex empties the index, as FLUSHALL would.
func (d Drill) FlushIndex() { d.p.memory.FlushAll() }

// DeposeLeader takes the firing leader's place away, as an expired session would; false if nobody leads.
func (d Drill) DeposeLeader() bool { return d.p.ballot.Depose("event") }

// Overdue counts the pending tasks whose moment is longer ago than by, on the database's clock.
func (d Drill) Overdue(ctx context.Context, by time.Duration) (int64, error) {
	return d.p.store.Overdue(ctx, by)
}

// Epoch gives the newest term of the firing leader.
func (d Drill) Epoch(ctx context.Context) (int64, error) { return d.p.epochs.Current(ctx, "event") }

// Drift compares the index with the rows and counts what still differs after two seconds.
func (d Drill) Drift(ctx context.Context) (missing, extra int64, err error) {
	shards, err := d.p.shards(ctx)
	if err != nil {
		return 0, 0, err
	}
	drift, err := verify.Check(ctx, d.p.store, d.p.index, shards)
	return drift.Missing, drift.Extra, err
}

// Tasks reads rows by id, finished ones too; unknown ids are absent.
func (d Drill) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return d.p.store.Get(ctx, nil, ids)
}

// Marked tells whether every shard of the index is whole: filled since its memory was last lost.
func (d Drill) Marked(ctx context.Context) (bool, error) {
	shards, err := d.p.shards(ctx)
	if err != nil {
		return false, err
	}
	marked, err := d.p.index.Marked(ctx, shards)
	return err == nil && !slices.Contains(marked, false), err
}
