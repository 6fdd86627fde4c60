package elect

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Term is one leadership under one epoch. Its methods are safe for concurrent use, also after the term ended.
type Term struct {
	// Epoch goes with every write that a newer leader must be able to fence.
	Epoch int64

	cancel     context.CancelFunc
	outranked  chan struct{} // closed by the first Fenced with a newer epoch
	fencedOnce sync.Once
	stored     int64 // valid once outranked is closed
	done       chan struct{}

	progressed atomic.Bool  // since the watchdog last looked
	latest     atomic.Int64 // age of the term at its last Progress, nanoseconds
	began      time.Time

	// These belong to the candidate's goroutine.
	stalled     bool   // the term stalled: it is never kept
	credited    bool   // the term's work has reset the candidate's failures
	stopPolling func() // stops pollEpoch
}

// Fenced reports that a write was refused because the stored epoch is newer than the term's. The function's context ends
// at once. The elector then takes a still newer epoch if its place is first (the database fell back behind the index), or
// queues once more. A stored epoch that is not newer is ignored.
func (t *Term) Fenced(stored int64) {
	if stored <= t.Epoch {
		return
	}
	t.fencedOnce.Do(func() {
		t.stored = stored
		t.cancel()
		close(t.outranked)
	})
}

// Progress reports a completed pass. A term without one for Config.StallAfter resigns.
func (t *Term) Progress() {
	t.progressed.Store(true)
	t.latest.Store(int64(time.Since(t.began)))
}

// worked returns how long the term worked: from its start to its last completed pass.
func (t *Term) worked() time.Duration { return time.Duration(t.latest.Load()) }

// running reports whether the term's function may go on.
func (t *Term) running() bool {
	select {
	case <-t.done:
		return false
	case <-t.outranked:
		return false
	default:
		return true
	}
}

// startTerm calls fn under epoch on a goroutine of its own. ctx is the candidate's.
func (c *candidate) startTerm(ctx context.Context, epoch int64) *Term {
	ctx, cancel := context.WithCancel(ctx)
	t := &Term{
		Epoch: epoch, cancel: cancel, began: time.Now(), stopPolling: func() {},
		outranked: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(t.done)
		defer cancel()
		c.log.InfoContext(ctx, "leading", "epoch", epoch)
		c.cfg.OnChange(c.name, true, epoch)
		err := c.fn(ctx, t)
		c.cfg.OnChange(c.name, false, epoch)
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "leading ended with an error", "epoch", epoch, "err", err)
			return
		}
		c.log.InfoContext(ctx, "leading ended", "epoch", epoch)
	}()
	return t
}

// endTerm stops the running term and waits at most limit for its function; false if the function has not returned.
func (c *candidate) endTerm(limit time.Duration) bool {
	t := c.term
	if t == nil {
		return true
	}
	t.cancel()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-t.done:
	case <-late.C:
		return false
	}
	t.stopPolling()
	c.term = nil
	return true
}

// pollEpoch compares the counter with the running term's epoch until stop is called; held says whether the candidate surely holds
// its place.
func (c *candidate) pollEpoch(ctx context.Context, held func() bool) (stop func()) {
	t := c.term
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(c.cfg.PollEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.done:
				return
			case <-tick.C:
				c.compareEpoch(ctx, t, held())
			}
		}
	}()
	return func() { cancel(); <-stopped }
}

// placeless is pollEpoch's held of a term without a place.
func placeless() bool { return false }

// compareEpoch ends t if the counter is above its epoch: another candidate was elected. While t's place is held, that one has lost its
// own. A counter below is of a database that fell back, and is raised to t's epoch, so that the next one taken is above. TakeAbove
// raises it higher only if somebody takes an epoch at this moment, whom the counter then tells to take another one.
func (c *candidate) compareEpoch(ctx context.Context, t *Term, held bool) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PollEvery)
	defer cancel()
	current, err := c.epochs.Current(ctx, c.name)
	switch {
	case err == nil && current < t.Epoch:
		c.log.WarnContext(ctx, "epochs fell back, raising the counter", "epoch", t.Epoch, "stored", current)
		_, err = c.epochs.TakeAbove(ctx, c.name, t.Epoch-1)
	case err == nil && !held:
		t.Fenced(current)
	}
	if err != nil { // the term goes on
		c.log.DebugContext(ctx, "epoch not compared", "epoch", t.Epoch, "err", err)
	}
}
