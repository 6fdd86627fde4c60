package worker

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Config bounds a worker. Its zero value is usable.
type Config struct {
	// Queues are those whose tasks the worker runs, of the queues of the kinds in its Mux. Default: all of these.
	Queues []string
	// Concurrency is how many transactions run side by side per queue: so many batches, as many single tasks, and half as
	// many retries. Default 8.
	Concurrency int
	// Batch is the most tasks in one transaction. Default 100.
	Batch int
	// BatchTime is the handlers' time after which a batch takes no further task and commits, so that nobody waits long
	// for its locks. Default 50 ms, or HandlerTimeout if that is shorter; 20 ms suits SQLite, where a transaction stops every
	// other writer.
	BatchTime time.Duration
	// HandlerTimeout bounds one call of a handler. Default 10 s. A kind may have less (task.Timeout), but not more: what the
	// worker's connections are told rests on this.
	HandlerTimeout time.Duration
	// Drain is how long running handlers may go on after Run's context ended; then they are rolled back, uncharged, and the
	// cause of their context's end names worker.drain. Default 8 s, whatever HandlerTimeout is. A handler that takes longer is
	// rolled back at each stop, and begins anew elsewhere: to let it finish, set this to its timeout.
	Drain time.Duration
	// Patience is how long after its moment a hint that can't be settled is kept before the sweep has to put it again.
	// Default 5 s, at least 3 s: a hint whose row is due later than this from now is let go at once, and hints come up to 2 s
	// ahead.
	Patience time.Duration
	// Late is how long after its next try a task of a queue without a due hint here is looked for in MySQL, at least 100 ms. Default
	// 1 s; a negative one turns looks off.
	Late time.Duration
	// MaxUncommitted bounds the messages fetched and not yet committed, per queue. Default 10·Batch·Concurrency, at least
	// 250,000, which is more than are ever sent ahead of their time: those must not keep others from being read. All queues together
	// hold about as many hints, some 600 bytes each; where one holds more than its share, the others may still hold theirs.
	MaxUncommitted int
	// Limits bound what all workers of a queue do together. Every worker must have the same. An operator's limit comes before
	// these. Default: none.
	Limits map[string]task.Limit
	// Kinds refuses handlers, and tasks that handlers schedule, which nobody would run. Default: it refuses nothing.
	Kinds *kinds.Kinds
	// BeforeSchedule sees each spec that a handler schedules, and may change or refuse it. Default: none.
	BeforeSchedule schedule.SpecFunc
	// Hooks are those of the client whose handlers these are (Client.Ledger): they see what the worker commits. Default: none.
	Hooks *ledger.Hooks
	// OnUnknown is called with what a transaction did if the answer to its COMMIT was lost. Default: the sweeps find it.
	OnUnknown func(*ledger.Tx)
	// Logger defaults to none.
	Logger *slog.Logger
	// Metrics defaults to none.
	Metrics prometheus.Registerer
	// Tracer defaults to OpenTelemetry's global one.
	Tracer trace.TracerProvider
}

func (c Config) withDefaults() (Config, error) {
	c.Concurrency = cmp.Or(c.Concurrency, 8)
	c.Batch = cmp.Or(c.Batch, 100)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 10*time.Second)
	c.BatchTime = cmp.Or(c.BatchTime, min(50*time.Millisecond, c.HandlerTimeout))
	c.Drain = cmp.Or(c.Drain, 8*time.Second)
	c.Patience = cmp.Or(c.Patience, 5*time.Second)
	c.Late = cmp.Or(c.Late, time.Second)
	c.MaxUncommitted = cmp.Or(c.MaxUncommitted, max(10*c.Batch*c.Concurrency, 250_000))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Tracer = cmp.Or(c.Tracer, otel.GetTracerProvider())
	late := c.Late
	if late < 0 {
		late = minLate // looks are off
	}
	return c, cmp.Or(
		c.checkLimits(),
		between("Late", late, minLate, time.Hour),
		between("Concurrency", c.Concurrency, 1, 1000),
		between("Batch", c.Batch, 1, 1000),
		between("HandlerTimeout", c.HandlerTimeout, time.Millisecond, time.Hour),
		between("BatchTime", c.BatchTime, time.Millisecond, c.HandlerTimeout),
		between("Drain", c.Drain, time.Millisecond, time.Hour),
		between("Patience", c.Patience, protocol.MaxLead+time.Second, time.Hour),
		between("MaxUncommitted", c.MaxUncommitted, c.Batch, 10_000_000),
	)
}

// read returns which of the queues of the mux the worker reads. A queue without a kind in the mux is refused: the worker would
// take its tasks from others, and could run none.
func (c Config) read(mux *worker.Mux, all handlers) ([]string, error) {
	if len(c.Queues) == 0 {
		return mux.Queues(), nil
	}
	for _, queue := range c.Queues {
		if len(all.of(queue)) == 0 {
			return nil, fmt.Errorf("worker: Queues (worker.queues): no kind of queue %q has a handler", queue)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(c.Queues))), nil
}

// checkLimits refuses a limit with a number outside its bounds.
func (c Config) checkLimits() error {
	for queue, l := range c.Limits {
		if err := l.Check(); err != nil {
			return fmt.Errorf("worker: Limits: queue %s: %w", queue, err)
		}
	}
	return nil
}

// checkTimeouts refuses a kind whose timeout is above HandlerTimeout. The server ends a connection that was silent for not
// much longer than that, and worker.drain is compared with that alone.
func (c Config) checkTimeouts(kinds []task.KindInfo) error {
	for _, k := range kinds {
		if k.Timeout > c.HandlerTimeout {
			return fmt.Errorf("worker: kind %s: its timeout (task.Timeout) of %v is above the worker's (worker.handler_timeout, "+
				"Config.HandlerTimeout) of %v", k.Name, k.Timeout, c.HandlerTimeout)
		}
	}
	return nil
}

// runners returns how many runners a queue has in each lane.
func (c Config) runners() [hold.Lanes]int {
	return [hold.Lanes]int{
		hold.LaneBatch: c.Concurrency, hold.LaneSingle: c.Concurrency, hold.LaneRetry: (c.Concurrency + 1) / 2, hold.LaneSuspect: 1,
	}
}

// allRunners returns how many runners a queue has.
func (c Config) allRunners() (n int) {
	for _, lane := range c.runners() {
		n += lane
	}
	return n
}

// batch returns how many tasks a transaction of the lane has at most.
func (c Config) batch(l hold.Lane) int {
	if l == hold.LaneBatch {
		return c.Batch
	}
	return 1
}

// between refuses a value beyond its limits.
func between[T int | time.Duration](name string, v, lowest, highest T) error {
	if v < lowest || v > highest {
		return fmt.Errorf("worker: %s: %v is not between %v and %v", name, v, lowest, highest)
	}
	return nil
}
