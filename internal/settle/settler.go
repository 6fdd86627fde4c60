package settle

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what transactions, and the changes of handlers, need of MySQL.
type Store interface {
	schedule.Rows
	// Waiting has LockFree, which locks rows in any state, and Heads: a task that somebody runs is pending until its COMMIT.
	ledger.Waiting
	// LockToRun is LockFree, and says which of the rows must not run.
	LockToRun(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, map[task.ID]protocol.Bar, time.Time, error)
	// LockDue locks the owner's pending rows that are due, or will be so soon, the first limit of them by (run_at, id), and
	// waits for those that others hold. It says whether the owner is blocked, which rows are paused or of limited
	// queues, and how many due rows were put off.
	LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (protocol.Due, error)
	// LockDueInOrder is LockDue for the tasks of an order key, as rows hold it, in their order.
	LockDueInOrder(ctx context.Context, q sqlx.ExtContext, key string, soon time.Duration, limit int) (protocol.Due, error)
	// LockToRunNow locks one row in any state, as LockDue does; there is none if the result has no rows.
	LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) (protocol.Due, error)
	// PausesOf returns the pauses that stand of these owners, and of kinds of all owners.
	PausesOf(ctx context.Context, q sqlx.QueryerContext, owners []string) (protocol.Pauses, error)
	// PutPauses makes pauses. Those that stand are not made shorter by it.
	PutPauses(ctx context.Context, q sqlx.ExtContext, pauses []protocol.Pause) error
	// Retryable reports whether the transaction did not commit, and may commit if it runs once more.
	Retryable(err error) bool
	// Unavailable reports whether the error says that MySQL is away.
	Unavailable(err error) bool
	// GetRecurrences reads rows without locking them; missing ones are absent.
	GetRecurrences(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Recurrence, error)
	// LockFreeRecurrences locks those of the recurrences that are free and whose newest task is one of these, and returns them.
	LockFreeRecurrences(ctx context.Context, q sqlx.ExtContext, ids, newest []task.ID) ([]task.Recurrence, error)
}

// Index takes the tasks of committed batches. It never waits.
type Index interface{ Offer(tasks []task.Task) }

// Letters take dead letters. They never wait.
type Letters interface {
	Bury(letters []protocol.DeadLetter)
}

// Config bounds a Settler.
type Config struct {
	BatchTime      time.Duration // of handlers, then a batch runs no further task
	HandlerTimeout time.Duration // of one call of a kind without a timeout of its own
	Patience       time.Duration // hints of rows farther off than this are settled, not held
	Holder         string        // the worker's name in its charges
	Kinds          *kinds.Kinds
	Limits         map[string]task.Limit // queues of which no reader runs a task
	BeforeSchedule schedule.SpecFunc     // sees what handlers schedule; nil: none
	Hooks          *ledger.Hooks         // see what a transaction did; nil: none
	OnUnknown      func(*ledger.Tx)      // called with what a transaction did whose COMMIT's answer was lost; nil: not called
	OnEvents       func([]Event)         // called after a commit, with what became of its tasks; nil: not called
	Logger         *slog.Logger
	Metrics        prometheus.Registerer
	Tracer         trace.Tracer
	OnStuck        func(error) // called with ErrStuck when the process must end
}

// Settler settles hints. It is safe for concurrent use.
type Settler struct {
	cfg       Config
	handlers  map[string]*Handler // by kind
	store     Store
	clock     *loop.Clock
	index     Index
	letters   Letters
	log       *slog.Logger
	number    int64 // of the worker, in the rows that it marks done
	gate      *Gate
	metrics   *metrics
	ticks     *recurrence.Metrics
	unhandled *unhandled
	timeouts  map[string]timeout // by kind; never changes
	abandoned atomic.Int64       // handlers that are abandoned and still running
	calls     calls
	pauses    pauses
}

// New makes a settler for the handlers' kinds.
func New(cfg Config, handlers map[string]*Handler, store Store, clock *loop.Clock, index Index, letters Letters) *Settler {
	m := newMetrics(cfg.Metrics, handlers)
	return &Settler{
		cfg: cfg, handlers: handlers, store: store, clock: clock, index: index, letters: letters, log: cfg.Logger, number: protocol.WorkerNumber(cfg.Holder),
		gate: newGate(clock, m.pauses, cfg.Logger), metrics: m, ticks: recurrence.NewMetrics(cfg.Metrics, recurrence.WorkerTicksTotal),
		unhandled: newUnhandled(cfg.Metrics, cfg.Logger), timeouts: newTimeouts(handlers, cfg.HandlerTimeout),
	}
}

// Gate returns the gate that is closed while MySQL is away.
func (s *Settler) Gate() *Gate { return s.gate }

// HasAbandoned reports whether an abandoned handler is still running: it may still end the process.
func (s *Settler) HasAbandoned() bool { return s.abandoned.Load() > 0 }

// CountExpired counts hints that were settled without a look, because their patience was over.
func (s *Settler) CountExpired(n int) { s.metrics.expired.WithLabelValues("stuck").Add(float64(n)) }
