package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// QueueLimit is what bounds a queue.
type QueueLimit struct {
	Queue         string    `json:"queue"`
	Added         bool      `json:"added,omitempty"`           // by an operator; the configuration lacks it
	PausedMs      *int64    `json:"paused_since_ms,omitempty"` // absent if it is not paused
	PausedUntilMs *int64    `json:"paused_until_ms,omitempty"` // when the pause ends by itself; absent: never
	Rate          task.Rate `json:"rate"`                      // empty: none
	Concurrency   int       `json:"concurrency"`               // 0: none
	OwnerRate     task.Rate `json:"owner_rate"`                // for each owner; empty: none
	ByOperator    bool      `json:"by_operator"`               // an operator set one of the limits; false: all are as configured
	Limited       bool      `json:"limited"`                   // due tasks wait for the limit
	Running       int       `json:"running"`                   // transactions that workers may run by now, in a queue with a concurrency

	RateSet        bool `json:"-"` // an operator set the rate
	OwnerRateSet   bool `json:"-"` // an operator set the rate for each owner
	ConcurrencySet bool `json:"-"` // an operator set the concurrency
}

// Queues returns what bounds each queue, sorted by name: those of the deployment, and those that are paused or have a limit.
func (c *Console) Queues(ctx context.Context) ([]QueueLimit, error) {
	now, err := c.store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	shared, err := c.store.Limits(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := c.store.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	added, err := c.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	paused := map[string]protocol.Pause{}
	for _, p := range pauses {
		if p.OfQueue() {
			paused[p.Queue] = p
		}
	}
	names := slices.Concat(c.cfg.Queues, added, slices.Collect(maps.Keys(shared)), slices.Collect(maps.Keys(paused)))
	slices.Sort(names)
	var all []QueueLimit
	for _, name := range slices.Compact(names) {
		q := queueLimitOf(name, shared[name], c.cfg.Limits[name], paused[name], now)
		q.Added = slices.Contains(added, name) && !c.isConfigured(name)
		all = append(all, q)
	}
	return all, nil
}

func queueLimitOf(name string, st limit.State, configured task.Limit, paused protocol.Pause, now time.Time) QueueLimit {
	bound := st.Limit(configured)
	q := QueueLimit{
		Queue: name, PausedMs: unixMs(paused.Made), PausedUntilMs: unixMs(paused.Until), Rate: bound.Rate, Concurrency: bound.Concurrency,
		OwnerRate: bound.OwnerRate, RateSet: st.Rate != nil, OwnerRateSet: st.OwnerRate != nil, ConcurrencySet: st.Concurrency != nil,
		Limited: st.Limited(now),
	}
	q.ByOperator = q.RateSet || q.OwnerRateSet || q.ConcurrencySet
	for _, h := range st.Holders {
		if h.Until.After(now) {
			q.Running += h.Permits
		}
	}
	return q
}

// LimitChange sets one limit of a queue: what LimitRate, LimitOwnerRate and LimitConcurrency return.
type LimitChange struct {
	wrong  error  // outside of the bounds
	detail string // for the history, behind the queue's name
	set    func(ctx context.Context, st *store.Store, tx *sqlx.Tx, queue string) error
}

// LimitRate changes a queue's rate; the zero rate is no bound, nil is the configured one.
func LimitRate(rate *task.Rate) LimitChange {
	return limitRate("rate", rate, func(l *task.Limit) *task.Rate { return &l.Rate }, (*store.Store).SetRate)
}

// LimitOwnerRate is LimitRate for the rate of each owner.
func LimitOwnerRate(rate *task.Rate) LimitChange {
	return limitRate("rate for each owner", rate, func(l *task.Limit) *task.Rate { return &l.OwnerRate }, (*store.Store).SetOwnerRate)
}

func limitRate(
	name string, rate *task.Rate, of func(*task.Limit) *task.Rate,
	set func(*store.Store, context.Context, sqlx.ExtContext, string, *task.Rate) error,
) LimitChange {
	l := LimitChange{
		detail: name + ": as configured",
		set: func(ctx context.Context, st *store.Store, tx *sqlx.Tx, queue string) error {
			return set(st, ctx, tx, queue, rate)
		},
	}
	if rate != nil {
		var limit task.Limit
		*of(&limit) = *rate
		l.detail, l.wrong = name+": "+cmp.Or(rate.String(), "none"), limit.Check()
	}
	return l
}

// LimitConcurrency changes how many transactions of a queue may run at once; 0 is no bound, nil is the configured one.
func LimitConcurrency(n *int) LimitChange {
	l := LimitChange{
		detail: "concurrency: as configured",
		set: func(ctx context.Context, st *store.Store, tx *sqlx.Tx, queue string) error {
			return st.SetConcurrency(ctx, tx, queue, n)
		},
	}
	if n != nil {
		l.detail = "concurrency: none"
		if *n != 0 {
			l.detail = "concurrency: " + strconv.Itoa(*n)
		}
		l.wrong = task.Limit{Concurrency: *n}.Check()
	}
	return l
}

// SetLimits sets limits of a queue of the deployment, all of them or none. They hold over all its workers, which obey within two
// seconds.
func (c *Console) SetLimits(ctx context.Context, queue string, limits ...LimitChange) error {
	for _, l := range limits {
		if l.wrong != nil {
			return l.wrong
		}
	}
	if err := c.CheckQueue(ctx, queue); err != nil {
		return err
	}
	return c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if err := c.holdQueue(ctx, tx, queue); err != nil {
			return err
		}
		for _, l := range limits {
			if err := l.set(ctx, c.store, tx, queue); err != nil {
				return err
			}
			changes.Note(event(changes, protocol.EventLimited, queue+" "+l.detail))
		}
		return nil
	})
}
