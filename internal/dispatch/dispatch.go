package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

// Index is what dispatch needs of the wake-up index.
type Index interface {
	// Claim acknowledges acked and returns what is due before now+lead, at most limit, in one round trip.
	Claim(ctx context.Context, shard int, epoch int64, now time.Time, lead time.Duration, limit int, acked []protocol.Entry) (protocol.Claim, error)
	// Marked returns for each shard whether its generation marker stands.
	Marked(ctx context.Context, shards int) ([]bool, error)
	// Wakes calls fn when a shard gets an entry that is earlier than all unclaimed ones, and for every shard when wake-ups
	// may have been lost. It returns when ctx is done.
	Wakes(ctx context.Context, shards int, fn func(shard int, at time.Time)) error
}

// Stream is what dispatch needs of Kafka.
type Stream interface {
	// Publish sends a hint for each entry and waits for all in-sync replicas. It returns nil if Kafka took all hints, else
	// an error or nil for each entry.
	Publish(ctx context.Context, entries []protocol.Entry, epoch int64) []error
	Compensate(ctx context.Context, c protocol.Compensation) error
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
	Lead    time.Duration // lead time: entries are claimed this far to three times this far ahead; 0: at their time
	Limit   int           // entries a claim; default 500
	Idle    time.Duration // longest sleep of an idle shard; default 1 s, and more with more than 16 shards
	Now     func() time.Time
	Layout  func(ctx context.Context) (protocol.Layout, error) // says which shards are polled; read each term and each second
	Queues  []string                                           // queues with topics; hints of other queues go to these
	Added   func(ctx context.Context) ([]string, error)        // queues that operators have added; read each term and each second; nil: none
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
	Loops   *loop.Successes       // nil: none
	Tracer  trace.TracerProvider  // nil: the global one
}

// ErrFenced ends a term: a shard holds a newer epoch.
var ErrFenced = errors.New("fenced by a newer epoch")

const (
	layoutInterval = time.Second // between two reads of the number of shards: new shards wait for it to be claimed
	markerInterval = time.Second // between two reads of all markers
	idlePollRate   = 16          // polls a second, of all idle shards together
	maxIdleSleep   = 4 * time.Second
)

// Dispatcher runs the passes of one process. It is safe for one term at a time.
type Dispatcher struct {
	cfg      Config
	index    Index
	stream   Stream
	metrics  *metrics
	tracer   trace.Tracer
	unlisted unlisted
	added    atomic.Pointer[[]string] // queues that operators have added, as last read; nil before
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
		unlisted: unlisted{met: map[string]protocol.Entry{}, warned: map[string]time.Time{}},
	}, nil
}

// Lead polls every shard under the given epoch until ctx ends or a shard holds a newer epoch (ErrFenced). It reads the
// number of shards every second, since that number can grow.
func (d *Dispatcher) Lead(ctx context.Context, epoch int64, term Term) error {
	for {
		layout, err := d.cfg.Layout(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the term ended; the error says only that
		}
		if err != nil {
			return fmt.Errorf("read the number of shards: %w", err)
		}
		if err := d.learnQueues(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("read the queues that were added: %w", err)
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
	heads := d.metrics.heads.reset(shards)
	defer d.metrics.heads.reset(0)
	succeeded := d.cfg.Loops.Of("dispatch")
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
		s := newShard(d, i, epoch, health, shards)
		s.head = heads[i]
		group.Go(func() error { return s.run(ctx, wakes[i], succeeded) })
	}
	group.Go(func() error { return d.wake(ctx, wakes) })
	group.Go(func() error { return d.checkMarkers(ctx, wakes) })
	group.Go(func() error { d.watchLayout(ctx, shards, stop); return nil })
	return group.Wait()
}

// idle returns the longest sleep of a shard without due entries. Wake-ups announce new entries and checkMarkers finds
// lost shards, so that many shards can be polled rarely.
func (d *Dispatcher) idle(shards int) time.Duration {
	if d.cfg.Idle > 0 {
		return d.cfg.Idle
	}
	return min(max(time.Second, time.Second*time.Duration(shards)/idlePollRate), maxIdleSleep)
}

// checkMarkers reads the markers of all shards at once, and wakes the shards that lost their memory, so that they ask for
// their rebuild. It does not count as the term's progress: reading markers works where claims fail.
func (d *Dispatcher) checkMarkers(ctx context.Context, wakes []chan struct{}) error {
	return loop.Run(ctx, loop.Config{Name: "dispatch look", Interval: markerInterval, Logger: d.cfg.Logger}, func(ctx context.Context) (loop.Result, error) {
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

// wake passes wake-ups on to the shards, except for entries that the idle poll will claim in time.
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

// watchLayout calls stop when the number of polled shards is no longer shards, and learns of added queues. While MySQL is away, polling
// goes on.
func (d *Dispatcher) watchLayout(ctx context.Context, shards int, stop func()) {
	_ = loop.Run(ctx, loop.Config{Name: "layout", Interval: layoutInterval, Logger: d.cfg.Logger}, func(ctx context.Context) (loop.Result, error) {
		layout, err := d.cfg.Layout(ctx)
		if err == nil && layout.Polled() != shards {
			stop()
		}
		return loop.Result{}, cmp.Or(err, d.learnQueues(ctx))
	})
}
