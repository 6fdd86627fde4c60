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
	detail := queue + " rate: as configured"
	if rate != nil {
		detail = queue + " rate: none"
		if *rate != (task.Rate{}) {
			detail = queue + " rate: " + rate.String()
		}
		if err := rate.Check(); err != nil {
			return err
		}
	}
	return c.setLimit(ctx, queue, detail, func(tx *sqlx.Tx) error { return c.store.SetRate(ctx, tx, queue, rate) })
}

// SetConcurrency sets how many transactions of a queue of the configuration may run at once, over all its workers, which obey
// within two seconds; 0 is no bound, nil is the configured one.
func (c *Console) SetConcurrency(ctx context.Context, queue string, n *int) error {
	detail := queue + " concurrency: as configured"
	if n != nil {
		if err := (task.Limit{Concurrency: *n}).Check(); err != nil {
			return err
		}
		detail = queue + " concurrency: " + concurrencyText(*n)
	}
	return c.setLimit(ctx, queue, detail, func(tx *sqlx.Tx) error { return c.store.SetConcurrency(ctx, tx, queue, n) })
}

func concurrencyText(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func (c *Console) setLimit(ctx context.Context, queue, detail string, set func(tx *sqlx.Tx) error) error {
	if err := c.CheckQueue(queue); err != nil {
		return err
	}
	return c.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		if err := set(tx); err != nil {
			return err
		}
		return c.record(ctx, tx, now, task.EventLimited, detail)
	})
}
