package elect

import (
	"context"
	"time"
)

// ending is why a leader stopped holding its place.
type ending int

const (
	endStopped  ending = iota // the candidate is to stop
	endLost                   // the place is gone; the term goes on
	endFenced                 // a newer epoch was reported
	endStalled                // no pass within StallAfter; the term goes on
	endReturned               // the function returned by itself
)

// hold watches over the running term while its place stands.
func (c *candidate) hold(ctx context.Context) ending {
	t := c.term
	ctx, cancel := context.WithCancel(ctx)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		c.place.stay(ctx)
	}()
	defer func() { cancel(); <-lost }() // place's methods are called by one goroutine at a time

	look := time.NewTicker(c.cfg.StallAfter / stallTicks)
	defer look.Stop()
	poll := time.NewTicker(c.cfg.PollEvery)
	defer poll.Stop()
	idle := 0
	for {
		select {
		case <-ctx.Done():
			return endStopped
		case <-t.outranked:
			return endFenced
		case <-t.done:
			return c.whyDone(ctx, t)
		case <-lost:
			return c.whyLost(ctx)
		case <-look.C:
			if idle++; t.progressed.Swap(false) {
				idle = 0
			}
			if idle >= stallTicks {
				return endStalled
			}
		case <-poll.C:
			if !c.place.connected() {
				c.fenceIfOutranked(ctx, t)
			}
		}
	}
}

// whyDone tells a function that returned because its term was ended from one that gave up.
func (c *candidate) whyDone(ctx context.Context, t *Term) ending {
	select {
	case <-t.outranked:
		return endFenced
	default:
	}
	if ctx.Err() != nil {
		return endStopped
	}
	return endReturned
}

func (c *candidate) whyLost(ctx context.Context) ending {
	if ctx.Err() != nil {
		return endStopped
	}
	return endLost
}
