package demo

import (
	"context"
	"time"
)

// fault is an injected outage, and the window in which it may have made tasks late.
type fault struct {
	Kind   string  `json:"kind"`
	HealMs float64 `json:"heal_ms"`

	began, healed time.Time
}

const (
	lateBy        = 250 * time.Millisecond // a task that is overdue by this, or by what usual returns, shows a fault
	watchInterval = 20 * time.Millisecond
	quietTime     = time.Second // without a late task: then the fault counts as healed

	faultsMade = 2
)

// injectFaults flushes the index after a quarter of the game, and deposes the leader another quarter after that healed.
func (s *stage) injectFaults(ctx context.Context) ([]fault, error) {
	drill := s.pipeline.Drill()
	faults := []fault{}
	for _, f := range []struct {
		kind string
		make func(ctx context.Context) (done func(ctx context.Context) (bool, error), err error)
	}{
		{"redis_flush", func(context.Context) (func(context.Context) (bool, error), error) {
			drill.FlushIndex()
			return drill.Marked, nil
		}},
		{"leader_loss", func(ctx context.Context) (func(context.Context) (bool, error), error) {
			before, err := drill.Epoch(ctx)
			for err == nil && !drill.DeposeLeader() && sleep(ctx, watchInterval) {
				continue // no process leads at this moment
			}
			return func(ctx context.Context) (bool, error) {
				now, err := drill.Epoch(ctx)
				return now > before, err
			}, err
		}},
	} {
		late, err := s.usual(ctx, s.cfg.For/4)
		if err != nil {
			return faults, unlessOver(ctx, err)
		}
		began := time.Now()
		mended, err := f.make(ctx)
		if err != nil {
			return faults, unlessOver(ctx, err)
		}
		healed, err := s.watch(ctx, began, late, mended)
		if err != nil {
			return faults, unlessOver(ctx, err)
		}
		faults = append(faults, fault{
			Kind: f.kind, HealMs: float64(healed.Sub(began).Microseconds()) / 1000, began: began, healed: healed,
		})
	}
	return faults, nil
}

// usual returns, after so long without a fault, how late no task was: lateBy, or more on a machine with too much to do.
func (s *stage) usual(ctx context.Context, d time.Duration) (late time.Duration, err error) {
	late = lateBy
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, err := s.pipeline.Drill().Overdue(ctx, late)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			late *= 2
		}
		if !sleep(ctx, watchInterval) {
			return 0, ctx.Err()
		}
	}
	return late, nil
}

// watch returns the moment from which the cause is mended and no task is late, once quietTime has confirmed it.
func (s *stage) watch(
	ctx context.Context, began time.Time, late time.Duration, mended func(context.Context) (bool, error),
) (time.Time, error) {
	healed, whole := began, false
	for time.Since(healed) < quietTime || !whole {
		n, err := s.pipeline.Drill().Overdue(ctx, late)
		if err != nil {
			return healed, err
		}
		if !whole {
			if whole, err = mended(ctx); err != nil {
				return healed, err
			}
			healed = time.Now()
		}
		if n > 0 {
			healed = time.Now()
		}
		if !sleep(ctx, watchInterval) {
			return healed, ctx.Err()
		}
	}
	return healed, nil
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the game is over
	}
	return err
}
