package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Work fires due tasks and runs the mux's handlers until ctx ends; then it takes no more, lets running handlers finish for
// up to 8 s, and returns nil. Call it once.
func (p *Pipeline) Work(ctx context.Context, mux *worker.Mux) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.clock.Run(ctx) })
	for range p.cfg.Events {
		if err := p.event(ctx, group); err != nil {
			return errors.Join(err, abort(stop, group))
		}
	}
	if err := p.daemon(ctx, group); err != nil {
		return errors.Join(err, abort(stop, group))
	}
	for i := range p.cfg.Workers {
		w, err := p.worker(i, mux)
		if err != nil {
			return errors.Join(err, abort(stop, group))
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	return group.Wait()
}

func abort(stop func(), group *errgroup.Group) error {
	stop()
	return group.Wait()
}

// event adds a candidate for firing.
func (p *Pipeline) event(ctx context.Context, group *errgroup.Group) error {
	d, err := dispatch.New(dispatch.Config{
		Lead: p.cfg.Lead, Now: p.clock.Now, Shards: p.shards, Logger: p.cfg.Logger,
	}, p.index, p.stream)
	if err != nil {
		return err
	}
	return p.stand(ctx, group, "event", func(ctx context.Context, term *elect.Term) error {
		return unlessFenced(d.Lead(ctx, term.Epoch, term))
	})
}

// daemon adds the one that repairs.
func (p *Pipeline) daemon(ctx context.Context, group *errgroup.Group) error {
	r, err := reconcile.New(reconcile.Config{
		Interval: p.cfg.Interval, Grace: p.cfg.Grace, Lead: p.cfg.Lead, Retention: p.cfg.Retention,
		Shards: p.shards, Logger: p.cfg.Logger, Metrics: p.cfg.Metrics,
	}, p.store, p.index, daemonStream{p.stream})
	if err != nil {
		return err
	}
	return p.stand(ctx, group, "daemon", func(ctx context.Context, term *elect.Term) error {
		return unlessFenced(r.Lead(ctx, term.Epoch, term))
	})
}

func (p *Pipeline) stand(ctx context.Context, group *errgroup.Group, name string, lead func(context.Context, *elect.Term) error) error {
	elector, err := elect.NewLocal(elect.Config{Logger: p.cfg.Logger}, p.ballot, p.store)
	if err != nil {
		return err
	}
	group.Go(func() error {
		defer func() { _ = elector.Close() }()
		return elector.Lead(ctx, name, lead)
	})
	return nil
}

// unlessFenced drops the error of a fenced term: the elector was told.
func unlessFenced(err error) error {
	if errors.Is(err, dispatch.ErrFenced) || errors.Is(err, reconcile.ErrFenced) {
		return nil
	}
	return err
}

func (p *Pipeline) worker(number int, mux *worker.Mux) (*worker.Worker, error) {
	cfg := worker.Config{Batch: p.cfg.Batch, Logger: p.cfg.Logger}
	if p.store.Dialect() == store.SQLite {
		cfg.BatchTime = sqliteBatchTime
		cfg.Concurrency = 1 // a transaction has the file to itself
	}
	if p.cfg.Metrics != nil {
		cfg.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"worker": fmt.Sprint(number)}, p.cfg.Metrics)
	}
	return worker.New(cfg, mux, p.store, consumer{p.stream}, p.index, p.stream)
}

func (p *Pipeline) shards(ctx context.Context) (int, error) {
	highest, err := p.store.MaxShard(ctx)
	return highest + 1, err
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
func (d Drill) Epoch(ctx context.Context) (int64, error) { return d.p.store.Current(ctx, "event") }

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
