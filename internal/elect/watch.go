package elect

import (
	"context"
	"time"
)

// ending is why a leader stopped holding its place.
type ending int

const (
	endStopped  ending = iota // ctx is done
	endLost                   // the place is lost; the term goes on
	endFenced                 // a newer epoch was reported
	endStalled                // no pass within StallAfter; the term goes on
	endReturned               // the function returned during its term
)

// watchTerm watches the running term and its place until either ends.
func (c *candidate) watchTerm(ctx context.Context) ending {
	t := c.term
	ctx, cancel := context.WithCancel(ctx)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		c.place.awaitLoss(ctx)
	}()
	defer func() { cancel(); <-lost }() // place's methods are called by one goroutine at a time
	defer c.pollEpoch(ctx, c.place.connected)()

	look := time.NewTicker(c.cfg.StallAfter / stallTicks)
	defer look.Stop()
	idle := 0
	for {
		select {
		case <-ctx.Done():
			return endStopped
		case <-t.outranked:
			return endFenced
		case <-t.done:
			return c.whyReturned(ctx, t)
		case <-lost:
			if ctx.Err() != nil {
				return endStopped
			}
			return endLost
		case <-look.C:
			if idle++; t.progressed.Swap(false) {
				idle = 0
			}
			if idle >= stallTicks {
				return endStalled
			}
		}
	}
}

// whyReturned says whether a function returned because its term was ended, or during its term.
func (c *candidate) whyReturned(ctx context.Context, t *Term) ending {
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
