package reconcile

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// rebuild fills shards whose memory was lost. It reads the markers itself, so a lost request costs a second.
//
//  1. Set each missing shard's marker to building, with a token of our own.
//  2. Scan all pending rows up to the horizon, near-due first, and put those of the missing shards. A new process may not know
//     of all rows at once: what the floor falls to meanwhile is scanned afterwards.
//  3. Compare rows that changed during the scan: the scan may have missed them, and their own put or drop may have come
//     before ours.
//  4. Set the marker if the token still stands. A second loss of memory removed the token: then the next pass starts over.
//
// A shard that fails meanwhile is left to the next pass, with its token; the rebuild of the others goes on.
type rebuild struct {
	failed bool // the term's first look at the markers failed
	all    bool // what is rebuilt is every shard
}

func (b *rebuild) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	tokens, err := b.begin(ctx, s)
	if err != nil {
		b.failed = b.failed || s.unread.Load()
		return loop.Result{}, err
	}
	s.filling.Store(len(tokens) > 0)
	if s.unread.Swap(false) && b.failed {
		s.cfg.Logger.InfoContext(ctx, "index was away when the term began, all is audited")
		s.auditAll() // an earlier term knew since when: the changed pass may look back too little
	}
	if len(tokens) == 0 {
		return loop.Result{}, nil
	}
	defer s.filling.Store(false)
	servers := ""
	if b.all {
		if servers, err = s.index.Identity(ctx); err != nil {
			return loop.Result{}, err
		}
	}
	s.cfg.Logger.InfoContext(ctx, "rebuild begins", "n", len(tokens))
	began := s.now()
	rows, err := b.scan(ctx, s, tokens)
	s.metrics.repairs.WithLabelValues("rebuilt").Add(float64(rows))
	if err != nil {
		return loop.Result{}, err
	}
	if err := s.compareChangedSince(ctx, "changed", began); err != nil {
		return loop.Result{}, err
	}
	maps.DeleteFunc(tokens, func(shard int, _ string) bool { return s.index.skips(shard) })
	broken, err := b.end(ctx, s, tokens)
	if err != nil {
		return loop.Result{}, err
	}
	s.cfg.Logger.InfoContext(ctx, "rebuild ended", "n", rows, "broken", broken)
	if servers != "" && broken == 0 && len(s.index.failed) == 0 {
		s.filled.Store(&servers)
	}
	return loop.Result{More: broken > 0}, nil
}

// end sets the markers and counts the shards whose memory was lost once more meanwhile.
func (b *rebuild) end(ctx context.Context, s *sweep, tokens map[int]string) (broken int, err error) {
	for shard, token := range tokens {
		stood, err := s.index.EndRebuild(ctx, shard, token)
		if err := s.index.skip(err); err != nil {
			return broken, fmt.Errorf("mark shard %d: %w", shard, err)
		}
		if err == nil && !stood {
			broken++
		}
	}
	return broken, nil
}

// begin marks the shards without a complete marker as building, including those of an unfinished rebuild.
func (b *rebuild) begin(ctx context.Context, s *sweep) (map[int]string, error) {
	marked, err := s.markers(ctx)
	if err := s.index.skip(err); err != nil {
		return nil, err
	}
	tokens := map[int]string{}
	for shard, ok := range marked {
		if ok {
			continue
		}
		token, err := s.index.BeginRebuild(ctx, shard)
		if err := s.index.skip(err); err != nil {
			return nil, fmt.Errorf("begin rebuild of shard %d: %w", shard, err)
		}
		if err == nil {
			tokens[shard] = token
		}
	}
	b.all = len(tokens) == len(marked)
	return tokens, b.endEmpty(ctx, s, tokens)
}

// endEmpty ends the rebuild of shards that no row needs: shards that are polled before a growth makes them places, or still
// polled after a shrink. The layout is read after the rebuild began, so that rows which go there later are put after it. A loss
// of memory in between removes the token.
func (b *rebuild) endEmpty(ctx context.Context, s *sweep, tokens map[int]string) error {
	if len(tokens) == 0 {
		return nil
	}
	layout, err := s.cfg.Layout(ctx)
	if err != nil {
		return fmt.Errorf("read the number of shards: %w", err)
	}
	empty := maps.Clone(tokens)
	maps.DeleteFunc(empty, func(shard int, _ string) bool { return shard < max(layout.Shards, layout.ShardsFrom) })
	if len(empty) == 0 {
		return nil
	}
	maps.DeleteFunc(tokens, func(shard int, _ string) bool { return empty[shard] != "" })
	broken, err := b.end(ctx, s, empty)
	s.cfg.Logger.InfoContext(ctx, "empty shards are complete", "n", len(empty), "broken", broken)
	return err
}

const (
	scanPage = 5000 // rows that a rebuild reads at once; other passes read fewer, to spare the servers
	fillers  = 3    // pages filled side by side, so that Redis need not wait for the next page
)

// scan fills from the floor on, and then from where the floor has fallen to meanwhile.
func (b *rebuild) scan(ctx context.Context, s *sweep, tokens map[int]string) (total int, err error) {
	for until := farFuture; ; {
		floor, err := s.store.Floor(ctx)
		if err != nil || !floor.Before(until) {
			return total, err
		}
		n, err := b.fillBetween(ctx, s, tokens, floor, until)
		if total += n; err != nil {
			return total, err
		}
		until = floor
	}
}

// fillBetween reads and fills side by side: MySQL reads the next page while Redis takes others.
func (b *rebuild) fillBetween(ctx context.Context, s *sweep, tokens map[int]string, from, to time.Time) (int, error) {
	var total atomic.Int64
	pages := make(chan []task.Task, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		_, err := new(walk).pages(ctx, s, s.lost(tokens, from, to), nil, func(rows []task.Task) error {
			select {
			case pages <- rows:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		return err
	})
	for range fillers {
		group.Go(func() error {
			for rows := range pages {
				if err := b.fill(ctx, s, rows); err != nil {
					return err
				}
				total.Add(int64(len(rows)))
			}
			return nil
		})
	}
	err := group.Wait()
	return int(total.Load()), err
}

// lost reads pages of the pending rows of the missing shards that are due in [from, to), up to the horizon. Rows that come within
// the horizon during the scan are the lookahead's.
func (s *sweep) lost(tokens map[int]string, from, to time.Time) readPage {
	return func(ctx context.Context, after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
		layout, err := s.layoutFor(ctx, "rebuilt") // a horizon may be set during the scan
		if err != nil {
			return nil, protocol.Cursor{}, err
		}
		end := horizonEnd(layout, s.now)
		if to.Before(end) {
			end = to
		}
		rows, next, err := s.pending(from, end, scanPage)(ctx, after)
		return slices.DeleteFunc(rows, func(row task.Task) bool { return tokens[row.Shard] == "" }), next, err
	}
}

// fill puts rows that are in neither set: a writer's later put replaces ours, and an earlier put keeps ours out. Rows
// whose entries differ are mended. A call has few enough rows for a busy Redis to answer in time: after an error the scan begins
// anew, and a Redis that was always too slow for a call would never be whole again.
func (b *rebuild) fill(ctx context.Context, s *sweep, rows []task.Task) error {
	for some := range slices.Chunk(rows, page) {
		_, otherwise, err := s.index.Fill(ctx, some)
		if err != nil {
			return err
		}
		if err := s.mendUnlessMoving(ctx, "rebuilt", otherwise, putAlways); err != nil {
			return err
		}
	}
	return nil
}

// farFuture is later than every due time that a row can have.
var farFuture = time.UnixMilli(math.MaxInt64)
