package reconcile

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// rebuild fills shards whose memory was lost. It reads the markers itself, so a lost request costs a second.
//
//  1. Set each missing shard's marker to building, with a token of our own.
//  2. Scan all pending rows up to the horizon, near-due first, and put those of the missing shards.
//  3. Compare rows that changed during the scan: the scan may have missed them, and their own put or drop may have come
//     before ours.
//  4. Set the marker if the token still stands. A second loss of memory removed the token: then the next pass starts over.
//
// A shard that fails meanwhile is left to the next pass, with its token; the rebuild of the others goes on.
type rebuild struct {
	r      *Reconciler
	failed bool // the term's first look at the markers failed
}

func (b *rebuild) pass(ctx context.Context, now clock) (loop.Result, error) {
	var skipped skippedShards
	tokens, err := b.begin(ctx)
	if err := skipped.collect(err, nil); err != nil {
		b.failed = b.failed || b.r.unread.Load()
		return loop.Result{}, err
	}
	b.r.filling.Store(len(tokens) > 0)
	if b.r.unread.Swap(false) && b.failed {
		b.r.cfg.Logger.InfoContext(ctx, "index was away when the term began, all is audited")
		b.r.auditAll() // an earlier term knew since when: the changed pass may look back too little
	}
	if len(tokens) == 0 {
		return loop.Result{}, skipped.err()
	}
	defer b.r.filling.Store(false)
	b.r.cfg.Logger.InfoContext(ctx, "rebuild begins", "n", len(tokens))
	began := now()
	rows, err := b.scan(ctx, tokens, now)
	b.r.metrics.repairs.WithLabelValues("rebuilt").Add(float64(rows))
	if err := skipped.collect(err, nil); err != nil {
		return loop.Result{}, err
	}
	recent := &changed{r: b.r}
	_, err = recent.window(ctx, began.Add(-b.r.cfg.Longest), now().Add(time.Millisecond), now, nil)
	if err := skipped.collect(err, nil); err != nil {
		return loop.Result{}, err
	}
	maps.DeleteFunc(tokens, func(shard int, _ string) bool { return skipped.shards[shard] != nil })
	broken, err := b.end(ctx, tokens)
	if err := skipped.collect(err, nil); err != nil {
		return loop.Result{}, err
	}
	b.r.cfg.Logger.InfoContext(ctx, "rebuild ended", "n", rows, "broken", broken)
	return loop.Result{More: broken > 0}, skipped.err()
}

// end sets the markers and counts the shards whose memory was lost once more meanwhile.
func (b *rebuild) end(ctx context.Context, tokens map[int]string) (broken int, err error) {
	var skipped skippedShards
	for shard, token := range tokens {
		stood, err := b.r.index.EndRebuild(ctx, shard, token)
		if err := skipped.collect(err, nil); err != nil {
			return broken, fmt.Errorf("mark shard %d: %w", shard, err)
		}
		if err == nil && !stood {
			broken++
		}
	}
	return broken, skipped.err()
}

// begin marks the shards without a complete marker as building, including those of an unfinished rebuild.
func (b *rebuild) begin(ctx context.Context) (map[int]string, error) {
	var skipped skippedShards
	marked, err := b.r.markers(ctx)
	if err := skipped.collect(err, nil); err != nil {
		return nil, err
	}
	tokens := map[int]string{}
	for shard, ok := range marked {
		if ok {
			continue
		}
		token, err := b.r.index.BeginRebuild(ctx, shard)
		if err := skipped.collect(err, nil); err != nil {
			return nil, fmt.Errorf("begin rebuild of shard %d: %w", shard, err)
		}
		if err == nil {
			tokens[shard] = token
		}
	}
	if err := skipped.collect(b.endEmpty(ctx, tokens), nil); err != nil {
		return nil, err
	}
	return tokens, skipped.err()
}

// endEmpty ends the rebuild of shards that no row needs: shards that are polled before a growth makes them places, or still
// polled after a shrink. The layout is read after the rebuild began, so that rows which go there later are put after it. A loss
// of memory in between removes the token.
func (b *rebuild) endEmpty(ctx context.Context, tokens map[int]string) error {
	if len(tokens) == 0 {
		return nil
	}
	layout, err := b.r.cfg.Layout(ctx)
	if err != nil {
		return fmt.Errorf("read the number of shards: %w", err)
	}
	empty := maps.Clone(tokens)
	maps.DeleteFunc(empty, func(shard int, _ string) bool { return shard < max(layout.Shards, layout.ShardsFrom) })
	if len(empty) == 0 {
		return nil
	}
	maps.DeleteFunc(tokens, func(shard int, _ string) bool { return empty[shard] != "" })
	broken, err := b.end(ctx, empty)
	b.r.cfg.Logger.InfoContext(ctx, "empty shards are complete", "n", len(empty), "broken", broken)
	return err
}

const (
	scanPage = 5000 // rows that a rebuild reads at once; other passes read fewer, to spare the servers
	fillers  = 3    // pages filled side by side, so that Redis need not wait for the next page
)

// scan reads and fills side by side: MySQL reads the next page while Redis takes others.
func (b *rebuild) scan(ctx context.Context, tokens map[int]string, now clock) (int, error) {
	var total atomic.Int64
	var mu sync.Mutex
	var skipped skippedShards
	take := func(err error, rows []task.Task) error {
		mu.Lock()
		defer mu.Unlock()
		return skipped.collect(err, rows)
	}
	pages := make(chan []task.Task, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return b.read(ctx, tokens, pages, now)
	})
	for range fillers {
		group.Go(func() error {
			for rows := range pages {
				mu.Lock()
				sound := skipped.reachable(rows)
				mu.Unlock()
				if err := take(b.fill(ctx, sound, now), rows); err != nil {
					return err
				}
				total.Add(int64(len(rows)))
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = skipped.err()
	}
	return int(total.Load()), err
}

// read sends the pending rows of the missing shards up to the horizon to pages, near-due first. Rows that come within it during
// the scan are the lookahead's.
func (b *rebuild) read(ctx context.Context, tokens map[int]string, pages chan<- []task.Task, now clock) error {
	var after task.Cursor
	for {
		layout, err := b.r.layoutFor(ctx, "rebuilt") // a horizon may be set during the scan
		if err != nil {
			return err
		}
		rows, err := b.r.store.Pending(ctx, time.Time{}, horizonEnd(layout, now), after, scanPage)
		if err != nil || len(rows) == 0 {
			return err
		}
		last := len(rows) < scanPage
		after = behind(rows)
		lost := slices.DeleteFunc(rows, func(row task.Task) bool { _, missing := tokens[row.Shard]; return !missing })
		select {
		case pages <- lost:
		case <-ctx.Done():
			return ctx.Err()
		}
		if last {
			return nil
		}
	}
}

// fill puts rows that are in neither set: a writer's later put replaces ours, and an earlier put keeps ours out. Rows
// whose entries differ are mended.
func (b *rebuild) fill(ctx context.Context, rows []task.Task, now clock) error {
	var skipped skippedShards
	otherwise, err := b.r.index.Fill(ctx, rows)
	if err := skipped.collect(err, rows); err != nil {
		return fmt.Errorf("fill %d entries: %w", len(rows), err)
	}
	for some := range slices.Chunk(otherwise, page) {
		if err := skipped.collect(b.r.mendUnlessMoving(ctx, "rebuilt", some, now, putAlways), some); err != nil {
			return err
		}
	}
	return skipped.err()
}

// farFuture is later than every due time that a row can have.
var farFuture = time.UnixMilli(math.MaxInt64)
