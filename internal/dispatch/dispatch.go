package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// Index is what dispatch needs of the wake-up index.
type Index interface {
	// Claim acknowledges acked and returns what is due before now+lead, at most limit, in one round trip.
	Claim(ctx context.Context, shard int, epoch int64, now time.Time, lead time.Duration, limit int, acked []task.Entry) (task.Claim, error)
	// Marked tells for each shard whether it still has its memory.
	Marked(ctx context.Context, shards int) ([]bool, error)
	// Wakes calls fn whenever a shard got an entry earlier than all that are not yet claimed, and for every shard when
	// wake-ups may have been lost, until ctx is done.
	Wakes(ctx context.Context, shards int, fn func(shard int, at time.Time)) error
}

// Stream is what dispatch needs of Kafka.
type Stream interface {
	// Publish sends a hint for each entry and waits for the acknowledgement of all in-sync replicas. It returns nil
	// when all were taken, else an error or nil for each entry.
	Publish(ctx context.Context, entries []task.Entry, epoch int64) []error
	Compensate(ctx context.Context, c task.Compensation) error
}

// Term is the leadership under which a pass runs.
type Term interface {
	// Fenced reports the newer epoch that a shard holds.
	Fenced(stored int64)
	// Progress reports a completed pass; a term without one for 5 s resigns.
	Progress()
}

// Config says how dispatch polls.
type Config struct {
	Lead    time.Duration // how far ahead of their time entries are claimed, up to three times as far; 0 = not ahead
	Limit   int           // entries a claim; default 500
	Idle    time.Duration // longest sleep of an idle shard; default 1 s, and more with more than 16 shards
	Now     func() time.Time
	Layout  func(ctx context.Context) (task.Layout, error) // says which shards are polled; read each term and each minute
	Queues  []string                                       // those that have topics: hints of other queues go there; default: to none
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil = none
	Loops   *loop.Successes       // nil = none
	Tracer  trace.TracerProvider  // nil = the global one
}

// ErrFenced ends a term: a shard holds a newer epoch.
var ErrFenced = errors.New("fenced by a newer epoch")

const (
	relayout   = time.Minute // how often the number of shards is read again
	lookEvery  = time.Second // between looks at all markers at once
	idleShards = 16          // so many idle shards are polled a second
	maxIdle    = 4 * time.Second
)

// Dispatcher runs the passes of one process. It is safe for one term at a time.
type Dispatcher struct {
	cfg      Config
	index    Index
	stream   Stream
	metrics  *metrics
	tracer   trace.Tracer
	unlisted *unlisted
}

// New checks the configuration; Now and Layout are required.
func New(cfg Config, index Index, stream Stream) (*Dispatcher, error) {
	if cfg.Now == nil || cfg.Layout == nil {
		return nil, errors.New("dispatch: Now and Layout must be set")
	}
	cfg.Limit = cmp.Or(cfg.Limit, 500)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Tracer = cmp.Or(cfg.Tracer, otel.GetTracerProvider())
	return &Dispatcher{
		cfg: cfg, index: index, stream: stream, metrics: newMetrics(cfg.Metrics, cfg.Now), tracer: cfg.Tracer.Tracer(tracerName),
		unlisted: &unlisted{cfg: cfg, warned: map[string]time.Time{}},
	}, nil
}

// Lead polls every shard under the given epoch until ctx ends or a shard answers that a newer epoch stands
// (ErrFenced). The number of shards may have grown since the last term, and is read again each minute.
func (d *Dispatcher) Lead(ctx context.Context, epoch int64, term Term) error {
	for {
		layout, err := d.cfg.Layout(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the term ended; the error says only that
		}
		if err != nil {
			return fmt.Errorf("read the number of shards: %w", err)
		}
		if err := d.poll(ctx, epoch, term, layout.Polled()); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// poll runs all shards side by side until their number has changed, ctx ends, or the term is fenced.
func (d *Dispatcher) poll(ctx context.Context, epoch int64, term Term, shards int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	health := &health{term: term}
	wakes := make([]chan struct{}, shards)
	heads := d.metrics.heads.lead(shards)
	defer d.metrics.heads.lead(0)
	succeeded := d.cfg.Loops.Of("dispatch")
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
		s := &shard{d: d, number: i, epoch: epoch, health: health, idle: d.idle(shards), crowd: newCrowd(d.cfg.Lead, shards), head: heads[i]}
		group.Go(func() error { return s.run(ctx, wakes[i], succeeded) })
	}
	group.Go(func() error { return d.wake(ctx, wakes) })
	group.Go(func() error { return d.look(ctx, wakes) })
	group.Go(func() error { d.watchLayout(ctx, shards, stop); return nil })
	return group.Wait()
}

// idle is how long a shard without anything due sleeps at most. Wake-ups tell it of what comes and look of what is lost,
// so that many shards can be polled seldom.
func (d *Dispatcher) idle(shards int) time.Duration {
	if d.cfg.Idle > 0 {
		return d.cfg.Idle
	}
	return min(max(time.Second, time.Second*time.Duration(shards)/idleShards), maxIdle)
}

// look reads the markers of all shards at once and wakes those that lost their memory, to ask for their rebuild. It is no
// progress of the term: reading markers works where claims fail.
func (d *Dispatcher) look(ctx context.Context, wakes []chan struct{}) error {
	return loop.Run(ctx, loop.Config{Name: "dispatch look", Interval: lookEvery, Logger: d.cfg.Logger}, func(ctx context.Context) (loop.Result, error) {
		marked, err := d.index.Marked(ctx, len(wakes))
		if err != nil {
			return loop.Result{}, err
		}
		for shard, ok := range marked {
			if !ok {
				loop.Rouse(wakes[shard])
			}
		}
		return loop.Result{}, nil
	})
}

// wake passes wake-ups on to the shards. One for an entry that the idle poll will meet in time is not needed.
func (d *Dispatcher) wake(ctx context.Context, wakes []chan struct{}) error {
	err := d.index.Wakes(ctx, len(wakes), func(shard int, at time.Time) {
		if shard < len(wakes) && !at.After(d.cfg.Now().Add(d.idle(len(wakes))+d.cfg.Lead)) {
			loop.Rouse(wakes[shard])
		}
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the term ended; the subscription's error says only that
	}
	return err
}

// watchLayout calls stop when the layout polls another number of shards than this poll serves. While MySQL is away the poll goes
// on.
func (d *Dispatcher) watchLayout(ctx context.Context, shards int, stop func()) {
	_ = loop.Run(ctx, loop.Config{Name: "layout", Interval: relayout, Logger: d.cfg.Logger}, func(ctx context.Context) (loop.Result, error) {
		layout, err := d.cfg.Layout(ctx)
		if err == nil && layout.Polled() != shards {
			stop()
		}
		return loop.Result{}, err
	})
}
