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

	restarts = 2
)

// injectFaults restarts the pipeline after a quarter of the game, and once more another quarter after that has healed.
func (s *stage) injectFaults(ctx context.Context) ([]fault, error) {
	faults := []fault{}
	for range restarts {
		late, err := s.usual(ctx, s.cfg.For/4)
		if err != nil {
			return faults, unlessOver(ctx, err)
		}
		began := time.Now()
		if err := s.restart(ctx); err != nil {
			return faults, unlessOver(ctx, err)
		}
		healed, err := s.watch(ctx, time.Now(), late)
		if err != nil {
			return faults, unlessOver(ctx, err)
		}
		faults = append(faults, fault{
			Kind: "restart", HealMs: float64(healed.Sub(began).Microseconds()) / 1000, began: began, healed: healed,
		})
	}
	return faults, nil
}

// usual returns, after so long without a fault, how late no task was: lateBy, or more on a machine with too much to do.
func (s *stage) usual(ctx context.Context, d time.Duration) (late time.Duration, err error) {
	late = lateBy
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, err := s.rows.Overdue(ctx, late)
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

// watch returns the moment from which no task is late, once quietTime has confirmed it.
func (s *stage) watch(ctx context.Context, healed time.Time, late time.Duration) (time.Time, error) {
	for time.Since(healed) < quietTime {
		n, err := s.rows.Overdue(ctx, late)
		if err != nil {
			return healed, err
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
