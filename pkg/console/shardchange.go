package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

// ShardChange is how far a change of the number of shards has come.
type ShardChange struct {
	Shards int   // the number now
	From   int   // the number before the change that is going on; 0: none is
	Paused bool  // rows stay where they are
	Moved  int64 // rows
	ToMove int64 // rows in all, about; 0 until they were counted
	Rate   float64
}

// Left returns how long the rows that are left will take; 0 if that is not known.
func (s ShardChange) Left() time.Duration {
	if s.Rate <= 0 || s.ToMove <= s.Moved {
		return 0
	}
	return time.Duration(float64(s.ToMove-s.Moved) / s.Rate * float64(time.Second))
}

// ShardChange reads how far the change of the number of shards has come. If rows are on their way, it waits to measure the
// rate.
func (c *Console) ShardChange(ctx context.Context, measure time.Duration) (ShardChange, error) {
	began := time.Now()
	l, err := c.store.Layout(ctx)
	if err != nil || !l.Changing() || l.Paused || measure <= 0 {
		return shardChangeOf(l), err
	}
	loop.Sleep(ctx, measure)
	later, err := c.store.Layout(ctx)
	s := shardChangeOf(later)
	if later.Generation == l.Generation {
		s.Rate = float64(later.Moved-l.Moved) / time.Since(began).Seconds()
	}
	return s, err
}

func shardChangeOf(l protocol.Layout) ShardChange {
	return ShardChange{Shards: l.Shards, From: l.ShardsFrom, Paused: l.Paused, Moved: l.Moved, ToMove: l.ToMove}
}

// Errors of a change of the number of shards, all of which leave it as it was.
var (
	ErrShardsChanging = errors.New("the number of shards is changing")
	ErrNotChanging    = errors.New("the number of shards is not changing")
)

const (
	polledPoll    = 100 * time.Millisecond // between two looks whether new shards are polled
	polledTimeout = 30 * time.Second       // for daemon and event to take up new shards; both read the layout each second
)

// ChangeShards makes n the number of shards; the daemon then moves the rows. Before, the new shards are made polled, and it
// waits until they are complete and claimed. begun is false if this very change is going on already.
func (c *Console) ChangeShards(ctx context.Context, n int) (begun bool, err error) {
	if n < 1 || n > protocol.MaxShards {
		return false, fmt.Errorf("shards must be 1 to %d", protocol.MaxShards)
	}
	l, err := c.store.Layout(ctx)
	switch {
	case err != nil:
		return false, err
	case l.Changing() && l.Shards == n:
		return false, nil
	case l.Changing():
		return false, fmt.Errorf("%w from %d to %d: wait for its end, or cancel it", ErrShardsChanging, l.ShardsFrom, l.Shards)
	case l.Shards == n:
		return false, fmt.Errorf("there are %d shards already", n)
	}
	if err := c.store.PollShards(ctx, n); err != nil {
		return false, err
	}
	if err := c.awaitPolled(ctx, l.Shards, n); err != nil {
		return false, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if err := c.store.BeginChange(ctx, tx, l, n); err != nil {
			return err
		}
		changes.Note(event(changes, protocol.EventShards, fmt.Sprintf("%d to %d: begun", l.Shards, n)))
		return nil
	})
	return err == nil, err
}

// awaitPolled waits until the shards from..n-1 are complete and claimed by the leader of event: no task may go to a shard that
// nobody looks at.
func (c *Console) awaitPolled(ctx context.Context, from, n int) error {
	for began := time.Now(); from < n; {
		epoch, err := c.store.Current(ctx, LeaderEvent)
		if err != nil {
			return err
		}
		shards, err := c.readShards(ctx, n)
		if err != nil {
			return err
		}
		missing, unclaimed := 0, 0
		for _, s := range shards[from:] {
			if s.Marker != MarkerComplete {
				missing++
			}
			if s.Epoch == 0 || s.Epoch != epoch {
				unclaimed++
			}
		}
		switch {
		case missing == 0 && unclaimed == 0:
			return nil
		case time.Since(began) > polledTimeout && missing > 0:
			return fmt.Errorf("no daemon has taken up %d of the new shards within %v, the number stays: is one running?", missing, polledTimeout)
		case time.Since(began) > polledTimeout:
			return fmt.Errorf("no event process has claimed %d of the new shards within %v, the number stays: does one lead?", unclaimed, polledTimeout)
		}
		loop.Sleep(ctx, polledPoll)
	}
	return nil
}

// PauseShards pauses the change of the number of shards, or resumes it; changed is false if it was so before.
func (c *Console) PauseShards(ctx context.Context, paused bool) (changed bool, err error) {
	l, err := c.changing(ctx)
	if err != nil {
		return false, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if changed, err = c.store.PauseChange(ctx, tx, l, paused); err != nil || !changed {
			return err
		}
		word := map[bool]string{true: "paused", false: "resumed"}[paused]
		changes.Note(event(changes, protocol.EventShards, fmt.Sprintf("%d to %d: %s", l.ShardsFrom, l.Shards, word)))
		return nil
	})
	return changed, err
}

// CancelShards turns the change of the number of shards round: rows that have moved go back. It returns the number to which
// they go back.
func (c *Console) CancelShards(ctx context.Context) (shards int, err error) {
	l, err := c.changing(ctx)
	if err != nil {
		return 0, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if err := c.store.CancelChange(ctx, tx, l); err != nil {
			return err
		}
		changes.Note(event(changes, protocol.EventShards, fmt.Sprintf("%d to %d: cancelled", l.ShardsFrom, l.Shards)))
		return nil
	})
	return l.ShardsFrom, err
}

// changing reads the layout, whose change must be going on.
func (c *Console) changing(ctx context.Context) (protocol.Layout, error) {
	l, err := c.store.Layout(ctx)
	if err == nil && !l.Changing() {
		err = ErrNotChanging
	}
	return l, err
}
