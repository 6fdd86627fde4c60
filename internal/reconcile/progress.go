package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

// A term makes progress while MySQL and Redis answer it: a daemon that has lost one of them must make way for one that has
// not. Most passes touch Redis only where they find something to mend, so that their success proves nothing. The rebuild reads
// the layout and the markers in each run: it alone is progress.

const answerInterval = time.Second // between two looks during a long run

// markers reads the layout from MySQL and the shards' markers from Redis. A protocol.ShardsError names the shards that did not
// answer, if others did.
func (r *Reconciler) markers(ctx context.Context) (marked []bool, err error) {
	layout, err := r.cfg.Layout(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the number of shards: %w", err)
	}
	marked, err = r.index.Marked(ctx, layout.Polled())
	failed, partial := protocol.FailedShards(err)
	switch {
	case err == nil, partial && len(failed) < len(marked):
		return marked, err
	case partial:
		return nil, fmt.Errorf("read the generation markers: no shard answers: %w", failed[0])
	default:
		return nil, fmt.Errorf("read the generation markers: %w", err)
	}
}

// progressWhileAnswered reports progress of the term each second in which both servers answer, until stop is called. A rebuild of
// many millions takes minutes, and its pages may take long on a cold disk: another daemon would have to begin anew.
func (r *Reconciler) progressWhileAnswered(ctx context.Context, term Term) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		for loop.Sleep(ctx, answerInterval); ctx.Err() == nil; loop.Sleep(ctx, answerInterval) {
			_, err := r.markers(ctx)
			reportProgress(term, err)
		}
	})
	return func() { cancel(); looking.Wait() }
}

// reportProgress reports progress unless err says more than that some shards failed.
func reportProgress(term Term, err error) {
	if _, partial := protocol.FailedShards(err); err == nil || partial {
		term.Progress()
	}
}
