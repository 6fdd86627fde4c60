package console

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// QueueLimit is what bounds a queue.
type QueueLimit struct {
	Queue       string    `json:"queue"`
	PausedMs    *int64    `json:"paused_since_ms,omitempty"` // absent if it is not paused
	Rate        task.Rate `json:"rate"`                      // empty: none
	Concurrency int       `json:"concurrency"`               // 0: none
	ByOperator  bool      `json:"by_operator"`               // an operator set one of the two; false: both are as configured
	Limited     bool      `json:"limited"`                   // due tasks wait for the limit
	Running     int       `json:"running"`                   // transactions that workers may run by now, in a queue with a concurrency
}

// Queues returns what bounds each queue, sorted by name: those of the configuration, and those that are paused or have a limit.
func (c *Console) Queues(ctx context.Context) ([]QueueLimit, error) {
	now, err := c.store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	shared, err := c.store.Limits(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := c.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(c.cfg.Queues, slices.Collect(maps.Keys(shared)), slices.Collect(maps.Keys(paused)))
	slices.Sort(names)
	var all []QueueLimit
	for _, name := range slices.Compact(names) {
		all = append(all, queueLimitOf(name, shared[name], c.cfg.Limits[name], paused[name], now))
	}
	return all, nil
}

func queueLimitOf(name string, st limit.State, configured task.Limit, paused, now time.Time) QueueLimit {
	bound := st.Limit(configured)
	q := QueueLimit{
		Queue: name, PausedMs: unixMs(paused), Rate: bound.Rate, Concurrency: bound.Concurrency,
		ByOperator: st.Rate != nil || st.Concurrency != nil, Limited: st.Limited(now),
	}
	for _, h := range st.Holders {
		if h.Until.After(now) {
			q.Running += h.Permits
		}
	}
	return q
}

// SetRate sets the rate of a queue of the configuration over all its workers, which obey within two seconds; the zero rate is no
// bound, nil is the configured one.
func (c *Console) SetRate(ctx context.Context, queue string, rate *task.Rate) error {
	return c.setLimits(ctx, queue, c.rateOf(ctx, queue, rate))
}

// SetConcurrency sets how many transactions of a queue of the configuration may run at once, over all its workers, which obey
// within two seconds; 0 is no bound, nil is the configured one.
func (c *Console) SetConcurrency(ctx context.Context, queue string, n *int) error {
	return c.setLimits(ctx, queue, c.concurrencyOf(ctx, queue, n))
}

// limitChange sets one limit of a queue.
type limitChange struct {
	wrong  error  // outside of the bounds
	detail string // for the history
	set    func(tx *sqlx.Tx) error
}

func (c *Console) rateOf(ctx context.Context, queue string, rate *task.Rate) limitChange {
	l := limitChange{
		detail: queue + " rate: as configured",
		set:    func(tx *sqlx.Tx) error { return c.store.SetRate(ctx, tx, queue, rate) },
	}
	if rate != nil {
		l.detail = queue + " rate: none"
		if *rate != (task.Rate{}) {
			l.detail = queue + " rate: " + rate.String()
		}
		l.wrong = rate.Check()
	}
	return l
}

func (c *Console) concurrencyOf(ctx context.Context, queue string, n *int) limitChange {
	l := limitChange{
		detail: queue + " concurrency: as configured",
		set:    func(tx *sqlx.Tx) error { return c.store.SetConcurrency(ctx, tx, queue, n) },
	}
	if n != nil {
		l.detail = queue + " concurrency: " + concurrencyText(*n)
		l.wrong = task.Limit{Concurrency: *n}.Check()
	}
	return l
}

func concurrencyText(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

// setLimits sets all of the limits, or none.
func (c *Console) setLimits(ctx context.Context, queue string, limits ...limitChange) error {
	for _, l := range limits {
		if l.wrong != nil {
			return l.wrong
		}
	}
	if err := c.CheckQueue(queue); err != nil {
		return err
	}
	return c.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		for _, l := range limits {
			if err := l.set(tx); err != nil {
				return err
			}
			if err := c.record(ctx, tx, now, task.EventLimited, l.detail); err != nil {
				return err
			}
		}
		return nil
	})
}
