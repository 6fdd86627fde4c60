package dispatch

import (
	"context"

	"github.com/duetime/duetime/internal/loop"
)

// Passes returns a pass of each shard under the epoch, for a caller that says when each runs: tests play races with them. Lead
// runs the same passes in loops.
func (d *Dispatcher) Passes(epoch int64, term Term, shards int) []func(context.Context) (loop.Result, error) {
	h := &health{term: term}
	all := make([]func(context.Context) (loop.Result, error), shards)
	for number := range all {
		all[number] = newShard(d, number, epoch, h, shards).pass
	}
	return all
}
