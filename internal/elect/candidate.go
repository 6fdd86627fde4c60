package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// handOverTimeout is how long a stopping leader's function may take before its place is given up: the successor's
	// epoch fences a function that still runs.
	handOverTimeout = 100 * time.Millisecond
	// leaveTimeout bounds giving up a place, so that a server that is away can't delay a shutdown.
	leaveTimeout = 500 * time.Millisecond
	// stallTicks is the number of the watchdog's looks in Config.StallAfter. The watchdog counts looks, not time: a process
	// that was frozen gets one tick, and has not stalled.
	stallTicks = 5
	// maxRegains bounds how often in a row a leader without a completed pass answers a fence with a newer epoch.
	maxRegains = 5
)

// errPlaceLost says that the place in the queue is lost, or is not the first.
var errPlaceLost = errors.New("the place in the queue is gone")

// candidate is one Lead call. Its fields belong to run's goroutine.
type candidate struct {
	cfg    Config
	epochs Epochs
	log    *slog.Logger
	name   string
	fn     leadFunc
	place  *node

	term     *Term // the last term started, perhaps placeless or over; nil before the first
	failures int   // resignations in a row
	regained int   // fences in a row that were answered with a newer epoch, without a completed pass
}

// run runs the steps that doc.go numbers. It returns nil when ctx is done, or the servers' refusal.
func (c *candidate) run(ctx context.Context) error {
	defer c.withdraw(ctx)
	for ctx.Err() == nil {
		if err := c.place.enter(ctx); err != nil {
			if err = c.refused(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err := c.place.await(ctx); err != nil {
			continue
		}
		c.lead(ctx)
	}
	return nil
}

// refused returns a refusal, unless a term goes on: a term needs no place, and must not end before an operator has fixed
// the access list.
func (c *candidate) refused(ctx context.Context, err error) error {
	if !isRefusal(err) {
		return nil // ctx is done
	}
	if c.term == nil || !c.term.running() {
		return err
	}
	c.log.WarnContext(ctx, "no place to be had, leading until fenced", "epoch", c.term.Epoch, "err", err)
	pause(ctx, c.cfg.StallAfter)
	return nil
}

// lead is called when the place is first. It returns when the place is lost or given up.
func (c *candidate) lead(ctx context.Context) {
	kept, err := c.keepTerm(ctx)
	if err == nil && !kept {
		err = c.beginTerm(ctx, 0)
	}
	if err != nil {
		c.resign(ctx, "not begun", err)
		return
	}
	for {
		switch c.watchTerm(ctx) {
		case endStopped:
			return
		case endLost:
			c.log.WarnContext(ctx, "place lost, leading until fenced", "epoch", c.term.Epoch)
			c.term.stopPolling = c.pollEpoch(ctx, placeless)
			return
		case endFenced:
			if err := c.regain(ctx); err != nil {
				c.resign(ctx, "fenced", err)
				return
			}
		case endStalled:
			c.term.stalled = true
			c.term.stopPolling = c.pollEpoch(ctx, placeless)
			c.resign(ctx, "stalled", nil)
			return
		case endReturned:
			c.resign(ctx, "returned", nil)
			return
		}
	}
}

// keepTerm keeps a term that lost its place, if the candidate became first once more before anybody else was elected. A
// stalled term is not kept: a new term may cure the stall. If the place is not first after all, keepTerm returns an
// error, so that no epoch is taken: it would outrank the term that goes on.
func (c *candidate) keepTerm(ctx context.Context) (kept bool, err error) {
	t := c.term
	if t == nil || t.stalled || !t.running() {
		return false, nil
	}
	// The counter is read before the place: a candidate that takes an epoch later finds that its place is lost.
	current, err := c.currentEpoch(ctx)
	if err != nil {
		return false, err
	}
	if current != t.Epoch {
		return false, nil
	}
	if err := c.mustBeFirst(ctx); err != nil {
		return false, err
	}
	t.stopPolling()
	t.stopPolling = func() {}
	c.log.InfoContext(ctx, "first again, leading on", "epoch", t.Epoch)
	return true, nil
}

func (c *candidate) currentEpoch(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StallAfter)
	defer cancel()
	epoch, err := c.epochs.Current(ctx, c.name)
	if err != nil {
		return 0, fmt.Errorf("read the epoch of %s: %w", c.name, err)
	}
	return epoch, nil
}

// beginTerm takes an epoch above stored and starts a term with it, if the place is still first afterwards: otherwise a
// candidate that was frozen before it took the epoch would outrank its successor.
func (c *candidate) beginTerm(ctx context.Context, stored int64) error {
	epoch, err := c.takeEpoch(ctx, stored)
	if err != nil {
		return err
	}
	if err := c.mustBeFirst(ctx); err != nil {
		return err
	}
	if !c.endTerm(c.cfg.StallAfter) {
		return fmt.Errorf("begin epoch %d: the function of epoch %d does not return", epoch, c.term.Epoch)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("begin epoch %d: %w", epoch, err)
	}
	c.term = c.startTerm(ctx, epoch)
	return nil
}

func (c *candidate) takeEpoch(ctx context.Context, stored int64) (epoch int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StallAfter)
	defer cancel()
	if stored > 0 {
		epoch, err = c.epochs.TakeAbove(ctx, c.name, stored)
	} else {
		epoch, err = c.epochs.Take(ctx, c.name)
	}
	if err != nil {
		return 0, fmt.Errorf("take an epoch for %s: %w", c.name, err)
	}
	return epoch, nil
}

// mustBeFirst returns errPlaceLost if the place is not first.
func (c *candidate) mustBeFirst(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StallAfter)
	defer cancel()
	ok, err := c.place.first(ctx)
	if err == nil && !ok {
		err = errPlaceLost
	}
	if err != nil {
		return fmt.Errorf("check the place for %s: %w", c.name, err)
	}
	return nil
}

// regain answers a fence: if the place is still first, no leader has the newer epoch, and regain takes an epoch above it.
func (c *candidate) regain(ctx context.Context) error {
	t := c.term
	if t.worked() > 0 {
		c.regained = 0
	}
	if c.regained++; c.regained > maxRegains {
		c.regained = 0
		return errors.New("fenced again and again")
	}
	if !c.place.connected() {
		return errPlaceLost
	}
	if err := c.mustBeFirst(ctx); err != nil {
		return err
	}
	c.log.WarnContext(ctx, "fenced while first, taking a newer epoch", "epoch", t.Epoch, "stored", t.stored)
	return c.beginTerm(ctx, t.stored)
}

// resign gives the place up and waits, longer each time, so that other candidates become first and servers in trouble get
// fewer requests. It does not wait after a lost place: the candidate can queue at once.
func (c *candidate) resign(ctx context.Context, state string, err error) {
	if ctx.Err() != nil {
		return
	}
	if t := c.term; t != nil && !t.credited && t.worked() >= 2*c.cfg.StallAfter {
		t.credited = true
		c.failures = 0
	}
	c.log.WarnContext(ctx, "resigning", "state", state, "err", err, "n", c.failures)
	c.leavePlace(ctx)
	if errors.Is(err, errPlaceLost) {
		return
	}
	c.failures++
	pause(ctx, c.backoff())
}

func (c *candidate) leavePlace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := c.place.leave(ctx); err != nil {
		c.log.WarnContext(ctx, "place not given up, left to expire", "err", err)
	}
}

// backoff returns a random time between half and all of RetryMin, which is doubled with each resignation in a row.
func (c *candidate) backoff() time.Duration {
	d := c.cfg.RetryMax
	if shift := c.failures - 1; shift < 16 {
		d = min(d, c.cfg.RetryMin<<shift)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no secrecy
}

// withdraw ends the candidacy: first the function, then the place, so that an orderly hand-over has one leader at a time.
// But the successor waits for a slow function only for handOverTimeout.
func (c *candidate) withdraw(ctx context.Context) {
	ended := c.endTerm(handOverTimeout)
	c.leavePlace(ctx)
	if !ended {
		<-c.term.done
		c.term.stopPolling()
	}
}

// pause returns after d, or when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
