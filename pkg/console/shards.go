package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Shard is a shard of the index.
type Shard struct {
	Shard    int    `json:"shard"`
	Due      int64  `json:"due"` // entries of the due set
	OldestMs *int64 `json:"oldest_due_ms,omitempty"`
	Owners   *int64 `json:"owners,omitempty"` // owners' sets; a Frame does not count them
	Marker   string `json:"marker"`           // MarkerAbsent, MarkerBuilding or MarkerComplete
	Epoch    int64  `json:"epoch"`            // of the newest leader that claimed here; 0 for none
}

// The markers of a shard.
const (
	MarkerAbsent   = "absent"   // the shard's memory was lost, and no daemon has begun to rebuild it
	MarkerBuilding = "building" // a rebuild is under way
	MarkerComplete = "complete"
)

// Shards reads the figures of each shard of the index.
func (c *Console) Shards(ctx context.Context) ([]Shard, error) {
	read, err := c.indexShards(ctx)
	if err != nil {
		return nil, err
	}
	owners, err := c.index.OwnerSets(ctx, len(read))
	if err != nil {
		return nil, err
	}
	shards := shardsOf(read)
	for i := range shards {
		shards[i].Owners = &owners[i]
	}
	return shards, nil
}

func shardsOf(read []indexShard) []Shard {
	shards := make([]Shard, len(read))
	for i, s := range read {
		shards[i] = Shard{Shard: i, Due: s.Due, OldestMs: unixMs(s.Oldest), Marker: s.Marker, Epoch: s.Epoch}
	}
	return shards
}

func (c *Console) indexShards(ctx context.Context) ([]indexShard, error) {
	n, err := c.ShardCount(ctx)
	if err != nil {
		return nil, err
	}
	return c.readShards(ctx, n)
}

var errNoIndex = errors.New("this process has no index")

// indexAway reports whether an error says that Redis is away, or that there is none.
func (c *Console) indexAway(err error) bool {
	return errors.Is(err, errNoIndex) || c.index != nil && c.index.Away(err)
}

// readShards reads the figures of the first n shards.
func (c *Console) readShards(ctx context.Context, n int) ([]indexShard, error) {
	if c.index == nil {
		return nil, errNoIndex
	}
	return c.index.Shards(ctx, n)
}

// ShardCount reads the largest number of shards that there has been: rows may be in any of them.
func (c *Console) ShardCount(ctx context.Context) (int, error) {
	layout, err := c.store.Layout(ctx)
	return layout.Polled(), err
}

// Horizon reads how far ahead tasks stand in the index; 0 if all do. While partial is true the index may lack some.
func (c *Console) Horizon(ctx context.Context) (d time.Duration, partial bool, err error) {
	layout, err := c.store.Layout(ctx)
	return layout.Horizon, layout.Partial, err
}

// ShardNames names up to five shards, and gives the number of more.
func ShardNames(shards []int) string {
	const maxNamed = 5
	if len(shards) > maxNamed {
		return fmt.Sprintf("%d shards", len(shards))
	}
	name := "shard"
	if len(shards) != 1 {
		name += "s"
	}
	for i, s := range shards {
		if i > 0 {
			name += ","
		}
		name += " " + strconv.Itoa(s)
	}
	return name
}

const (
	rebuildPoll  = 200 * time.Millisecond // between two reads of the markers
	rebuildStart = 30 * time.Second       // for a daemon to begin; the markers stay removed, and a later daemon rebuilds
)

// RebuildSteps is the number of steps for each shard of a rebuild: building, and complete.
const RebuildSteps = 2

// Rebuild makes the daemon rebuild the shards from the rows: it removes their markers, as if Redis had lost them, and
// waits until all markers exist again. It calls progress, unless it is nil, with the number of finished steps: RebuildSteps for
// each shard. An end of ctx ends the wait, not the rebuild.
func (c *Console) Rebuild(ctx context.Context, shards []int, progress func(done int)) error {
	if err := c.checkShards(ctx, shards); err != nil {
		return err
	}
	if _, err := c.rebuilt(ctx, shards); err != nil {
		return err
	}
	err := c.inTx(ctx, func(_ *sqlx.Tx, changes *ledger.Tx) error {
		changes.Note(event(changes, protocol.EventRebuild, ShardNames(shards)))
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.index.Unmark(ctx, shards); err != nil {
		return err
	}
	for began := time.Now(); ; {
		done, err := c.rebuilt(ctx, shards)
		if err != nil {
			return err
		}
		advance(progress, done)
		if done == RebuildSteps*len(shards) {
			return nil
		}
		if done == 0 && time.Since(began) > rebuildStart {
			return fmt.Errorf("no daemon has begun within %v: is one running? (it will, once it runs)", rebuildStart)
		}
		if loop.Sleep(ctx, rebuildPoll); ctx.Err() != nil {
			return fmt.Errorf("waiting given up, the rebuild goes on: %w", ctx.Err())
		}
	}
}

func (c *Console) checkShards(ctx context.Context, shards []int) error {
	n, err := c.ShardCount(ctx)
	if err != nil {
		return err
	}
	if len(shards) == 0 || slices.Min(shards) < 0 || slices.Max(shards) >= n {
		return &task.FieldError{Field: "shards", Problem: fmt.Sprintf("must be some of 0 to %d", n-1)}
	}
	return nil
}

// rebuilt counts the finished steps.
func (c *Console) rebuilt(ctx context.Context, shards []int) (int, error) {
	all, err := c.readShards(ctx, slices.Max(shards)+1)
	if err != nil {
		return 0, err
	}
	done := 0
	for _, s := range shards {
		done += map[string]int{MarkerBuilding: 1, MarkerComplete: RebuildSteps}[all[s].Marker]
	}
	return done, nil
}
