package settle

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/precise"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Store is the hot path on MySQL, and what the changes of handlers need.
type Store interface {
	schedule.Rows
	// Begin starts a transaction at READ COMMITTED, which ends with ctx.
	Begin(ctx context.Context) (*sqlx.Tx, error)
	// LockFree locks those of the rows that nobody holds, in any state, without waiting, and gives the database's time
	// of that same statement.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// Finish marks tasks done, given as they were read; an error unless it changed every one of them.
	Finish(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, now time.Time) error
	// Retryable reports whether the error says that the transaction did not commit and may do so when run again.
	Retryable(err error) bool
	// Ambiguous reports whether the error of a commit leaves open if it took effect.
	Ambiguous(err error) bool
	// Unavailable reports whether the error says that MySQL is away.
	Unavailable(err error) bool
}

// After does what follows a commit and no task waits for. It never blocks.
type After interface {
	Put(tasks []task.Task)          // into the index
	Bury(letters []task.DeadLetter) // into the dead topic
}

// Config bounds a Settler.
type Config struct {
	BatchTime      time.Duration // of handlers, after which a batch takes no further task
	HandlerTimeout time.Duration // of one call
	Patience       time.Duration // how far off a row may be for its hint to be held
	Holder         string        // names the worker's run in what it charges
	Kinds          *schedule.Kinds
	Logger         *slog.Logger
	Metrics        prometheus.Registerer
	Tracer         trace.Tracer
	OnStuck        func(error) // gets ErrStuck when the process must end
}

// Settler takes hints to their ends. It is safe for concurrent use.
type Settler struct {
	cfg       Config
	handlers  map[string]*Handler // by kind
	store     Store
	clock     *loop.Clock
	after     After
	log       *slog.Logger
	gate      *Gate
	metrics   *metrics
	unhandled *unhandled
	timeout   error        // the cause with which a handler's context ends in time
	abandoned atomic.Int64 // handlers that ignore the end of their context at present
}

// New makes a settler for the handlers' kinds.
func New(cfg Config, handlers map[string]*Handler, store Store, clock *loop.Clock, after After) *Settler {
	m := newMetrics(cfg.Metrics, handlers)
	return &Settler{
		cfg: cfg, handlers: handlers, store: store, clock: clock, after: after, log: cfg.Logger,
		gate: newGate(clock, m.pauses, cfg.Logger), metrics: m, unhandled: newUnhandled(cfg.Metrics, cfg.Logger),
		timeout: fmt.Errorf("%w of %v", errTimeout, cfg.HandlerTimeout),
	}
}

// Gate returns the gate that is closed while MySQL is away.
func (s *Settler) Gate() *Gate { return s.gate }

// HasAbandoned reports whether a handler that was abandoned is still running: it may yet end the process.
func (s *Settler) HasAbandoned() bool { return s.abandoned.Load() > 0 }

// CountExpired counts hints that were settled unlooked at, because their patience was over.
func (s *Settler) CountExpired(n int) { s.metrics.expired.WithLabelValues("stuck").Add(float64(n)) }

// Settle takes the hints through transactions, and returns when each is settled or has a later time at which to look
// again. sleeper is the runner's, and may be nil. When ctx ends, what has not committed is rolled back, uncharged.
func (s *Settler) Settle(ctx context.Context, hints []*hold.Hint, sleeper *precise.Sleeper) {
	b := &batch{settler: s, hints: hints, sleeper: sleeper}
	b.settle(ctx)
}
