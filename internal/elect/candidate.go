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
	// handOver is how long a stopping leader's function may take before its place is given up regardless: the
	// successor's epoch protects what still runs.
	handOver = 100 * time.Millisecond
	// leaveTimeout bounds giving up a place, so that a server that is away can't hold up a shutdown.
	leaveTimeout = 500 * time.Millisecond
	// stallTicks is how often the watchdog looks in Config.StallAfter. It counts looks, not time: a process that was
	// frozen wakes to one tick, and has not stalled.
	stallTicks = 5
	// regainLimit bounds how often in a row a leader that gets no pass done answers a fence with a newer epoch.
	regainLimit = 5
)

// errPlaceLost says that the place in the queue is gone, or was never first.
var errPlaceLost = errors.New("the place in the queue is gone")

// place is one candidate's standing in the queue for one name; its methods are called by one goroutine at a time,
// except connected.
type place interface {
	// enter gives up whatever place there was and stands last; it tries until it does, is refused, or ctx is done.
	enter(ctx context.Context) error
	// await returns nil when the place is first, errPlaceLost when it is gone, or ctx's error.
	await(ctx context.Context) error
	// first asks the server, not the memory, whether the place stands and is the first.
	first(ctx context.Context) (bool, error)
	// stay returns when the place is known to be gone, or ctx is done.
	stay(ctx context.Context)
	// connected reports whether a lost place would be noticed now.
	connected() bool
	// leave gives the place up; after an error the place is bound to vanish by itself.
	leave(ctx context.Context) error
}

// candidate is one Lead call. Its fields belong to run's goroutine.
type candidate struct {
	cfg    Config
	epochs Epochs
	log    *slog.Logger
	name   string
	fn     leadFunc
	place  place

	term     *Term // the last term started, perhaps adrift or over; nil before the first
	failures int   // resignations in a row
	regained int   // fences in a row answered with a newer epoch and no pass done
}

// run is the candidate's life: doc.go numbers its steps. It returns nil when ctx is done, or why no place can be had.
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

// refused gives back a refusal, unless a term goes on: that one needs no place, and whoever mends the refusal must not
// find it ended.
func (c *candidate) refused(ctx context.Context, err error) error {
	if !isRefusal(err) {
		return nil // ctx is done
	}
	if c.term == nil || !c.term.standing() {
		return err
	}
	c.log.WarnContext(ctx, "no place to be had, leading until fenced", "epoch", c.term.Epoch, "err", err)
	pause(ctx, c.cfg.StallAfter)
	return nil
}

// lead is called when the place is first, and returns when the place is gone or given up.
func (c *candidate) lead(ctx context.Context) {
	kept, err := c.keep(ctx)
	if err == nil && !kept {
		err = c.begin(ctx, 0)
	}
	if err != nil {
		c.resign(ctx, "not begun", err)
		return
	}
	for {
		switch end := c.hold(ctx); end {
		case endStopped:
			return
		case endLost:
			c.log.WarnContext(ctx, "place lost, leading until fenced", "epoch", c.term.Epoch)
			c.drift(ctx)
			return
		case endFenced:
			if err := c.regain(ctx); err != nil {
				c.resign(ctx, "fenced", err)
				return
			}
		case endStalled:
			c.term.stalled = true
			c.drift(ctx)
			c.resign(ctx, "stalled", nil)
			return
		case endReturned:
			c.resign(ctx, "returned", nil)
			return
		}
	}
}

// keep goes on with a term that lost its place and came first again before anybody else was elected. A term that
// stalled is not kept: a fresh start is its cure. Where the place is not first after all no epoch must be taken: it
// would outrank the very term that goes on.
func (c *candidate) keep(ctx context.Context) (kept bool, err error) {
	t := c.term
	if t == nil || t.stalled || !t.standing() {
		return false, nil
	}
	// The counter first, the place second: whoever took an epoch after this read finds its own place gone.
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
	t.undrift()
	t.undrift = func() {}
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

// begin takes an epoch above stored and starts a term with it, if the place is still first afterwards: a candidate
// that was frozen before it took the epoch would otherwise outrank its successor.
func (c *candidate) begin(ctx context.Context, stored int64) error {
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

// mustBeFirst asks whether the place stands first; errPlaceLost when it doesn't.
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

// regain answers a fence: with the place still first the newer epoch is nobody's who leads, and is overtaken.
func (c *candidate) regain(ctx context.Context) error {
	t := c.term
	if t.worked() > 0 {
		c.regained = 0
	}
	if c.regained++; c.regained > regainLimit {
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
	return c.begin(ctx, t.stored)
}

// resign gives the place up and waits, longer each time, so that others come first and an outage is not hammered. A
// term that is merely outranked by its successor has nothing to wait for.
func (c *candidate) resign(ctx context.Context, state string, err error) {
	if ctx.Err() != nil {
		return
	}
	if t := c.term; t != nil && !t.credited && t.worked() >= 2*c.cfg.StallAfter {
		t.credited = true
		c.failures = 0
	}
	c.log.WarnContext(ctx, "resigning", "state", state, "err", err, "n", c.failures)
	c.giveUp(ctx)
	if errors.Is(err, errPlaceLost) {
		return
	}
	c.failures++
	pause(ctx, c.backoff())
}

func (c *candidate) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := c.place.leave(ctx); err != nil {
		c.log.WarnContext(ctx, "place not given up, left to expire", "err", err)
	}
}

// backoff is between half and all of RetryMin doubled with each resignation in a row.
func (c *candidate) backoff() time.Duration {
	d := c.cfg.RetryMax
	if shift := c.failures - 1; shift < 16 {
		d = min(d, c.cfg.RetryMin<<shift)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no secrecy
}

// withdraw ends the candidacy: function first, place next, so that an orderly hand-over has one leader at a time; but
// a slow function doesn't keep the successor waiting.
func (c *candidate) withdraw(ctx context.Context) {
	ended := c.endTerm(handOver)
	c.giveUp(ctx)
	if !ended {
		<-c.term.done
		c.term.undrift()
	}
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
