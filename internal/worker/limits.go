package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

const (
	leaseInterval   = 50 * time.Millisecond // between looks at what a queue with a limit needs
	minLeaseGap     = 10 * time.Millisecond // between two leases
	permitInterval  = 100 * time.Millisecond
	renewInterval   = 500 * time.Millisecond // of permits; limit.PermitTTL is four of them
	refusalInterval = time.Second            // between tellings that due tasks wait
	maxLeaseTries   = 5                      // in one pass, while other workers change the row too
	maxSlotWait     = time.Second            // at most, since the rate may be raised, or the database's clock set back
)

// lessee gets its worker's part of the limit of one queue. One goroutine uses it.
type lessee struct {
	queue    *queue
	permits  int       // that it has
	until    time.Time // its permits expire
	wanted   int       // when it asked last
	present  bool      // it may be among the holders
	asked    time.Time
	reported time.Time // when it last told that due tasks wait
	noSlots  time.Time // until then it asks for no slots; on the local clock
}

// run leases until ctx ends, and then gives its permits back.
func (l *lessee) run(ctx context.Context) {
	q := l.queue
	cfg := loop.Config{
		Name: "limit of " + q.name, Interval: leaseInterval, MaxBackoff: settle.MaxProbeInterval, Logger: q.log, Wake: q.hold.Demanded(),
	}
	_ = loop.Run(ctx, cfg, l.pass) // it ends with ctx alone
	if !l.present {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := l.lease(ctx, limit.Ask{Limit: q.hold.Limit(), Holder: q.holder}); err != nil {
		q.log.WarnContext(ctx, "permits not given back, they expire", slog.Any("err", err))
	}
}

// pass asks for what is needed.
func (l *lessee) pass(ctx context.Context) (loop.Result, error) {
	q := l.queue
	bound := q.hold.Limit()
	if bound.Rate == (task.Rate{}) && bound.Concurrency == 0 {
		l.show(false)
		return loop.Result{Next: pauseInterval}, nil
	}
	now, demand := q.worker.clock.Now(), q.hold.Demand()
	share, _ := q.share()
	a := l.ask(bound, demand, membersOf(share))
	l.show(demand.Refused)
	if closed, _ := q.worker.gate.NextProbe(); closed || !l.needs(a, now) {
		return loop.Result{}, nil
	}
	if a.Slots {
		a.Lost = q.hold.LostSlots()
	}
	ctx, cancel := context.WithTimeout(ctx, pauseInterval)
	defer cancel()
	g, err := l.lease(ctx, a)
	if err != nil {
		return loop.Result{}, err
	}
	if a.Refused {
		l.reported = now
	}
	l.asked, l.wanted, l.permits, l.until = now, a.Wanted, g.Permits, g.Until
	l.present = bound.Concurrency > 0 && (g.Permits > 0 || a.Wanted > 0)
	if !g.SlotsAt.IsZero() {
		l.awaitSlots(g.SlotsAt.Sub(now))
	}
	q.hold.Allow(g.Slots, g.Permits, g.Until)
	loop.Sleep(ctx, minLeaseGap)
	return loop.Result{}, nil
}

func (l *lessee) ask(bound task.Limit, d hold.Demand, members int) limit.Ask {
	a := limit.Ask{Limit: bound, Holder: l.queue.holder, Members: members, Running: d.Running, Wanted: d.Running, Refused: d.Refused}
	a.Slots = bound.Rate != (task.Rate{}) && d.Due && 2*d.Slots <= limit.Lot(bound.Rate, members) && !time.Now().Before(l.noSlots)
	if d.Due && bound.Concurrency > 0 {
		a.Wanted = l.queue.worker.cfg.allRunners()
	}
	return a
}

// awaitSlots has the worker ask for no slots meanwhile. Without it, a worker that waits for slots would read the row in each pass.
// Workers that wait for one slot ask in a random order, so that each of them gets some.
func (l *lessee) awaitSlots(d time.Duration) {
	l.noSlots = time.Now().Add(min(maxSlotWait, d) + rand.N(leaseInterval)) //nolint:gosec // Spreads load, guards nothing.
}

// needs reports whether it is time to ask: for slots, for permits, to renew or return these, or to tell that due tasks wait.
func (l *lessee) needs(a limit.Ask, now time.Time) bool {
	since := now.Sub(l.asked).Abs() // the database's clock may have been set back since
	switch {
	case a.Slots:
		return true
	case a.Refused && now.Sub(l.reported).Abs() >= refusalInterval:
		return true
	case a.Limit.Concurrency == 0:
		return false
	case a.Wanted > l.permits:
		return l.wanted <= l.permits || since >= permitInterval
	case a.Wanted < l.permits:
		return since >= permitInterval
	}
	return l.present && since >= renewInterval
}

// lease changes what the workers share.
func (l *lessee) lease(ctx context.Context, a limit.Ask) (g limit.Grant, err error) {
	w := l.queue.worker
	for range maxLeaseTries {
		st, err := w.limits.Limit(ctx, l.queue.name)
		if err != nil {
			return limit.Grant{}, err
		}
		next, granted := st.Grant(a, w.clock.Now())
		if next.Same(st) {
			return granted, nil
		}
		saved, err := w.limits.SaveLimit(ctx, next)
		if err != nil {
			return limit.Grant{}, err
		}
		if saved {
			return granted, nil
		}
	}
	return limit.Grant{Permits: l.permits, Until: l.until}, nil // as before
}

func (l *lessee) show(limited bool) {
	value := 0.0
	if limited {
		value = 1
	}
	l.queue.worker.metrics.limited.WithLabelValues(l.queue.name).Set(value)
}

// applyLimits sets each queue's limit: an operator's, or as configured. A queue whose row is damaged keeps its own.
func (w *Worker) applyLimits(ctx context.Context) error {
	shared, err := w.limits.Limits(ctx)
	if err != nil {
		return err
	}
	var damaged []error
	for _, q := range w.queues {
		st := shared[q.name]
		if st.Damaged != nil {
			damaged = append(damaged, st.Damaged)
			continue
		}
		bound := st.Limit(w.cfg.Limits[q.name])
		if bound != q.hold.Limit() {
			q.log.InfoContext(ctx, "limit of a queue", slog.String("rate", bound.Rate.String()), slog.Int("concurrency", bound.Concurrency),
				slog.String("owner_rate", bound.OwnerRate.String()))
			q.hold.SetLimit(bound)
		}
	}
	return errors.Join(damaged...)
}
