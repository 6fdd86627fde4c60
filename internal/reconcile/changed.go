package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	writerTime     = time.Second      // from a row's change until its writer has put it
	windowMargin   = 10 * time.Second // beyond the longest transaction
	failoverWindow = 2 * time.Minute  // how much farther back to look after Redis was restarted or failed over
)

// changed compares recently changed rows with both sets, in any state. When a row becomes visible, its updated_at may be
// as old as its transaction, so windows overlap by the longest transaction. A row that was compared at the same version
// is skipped, but compared once more before it leaves the window: a late put may have come meanwhile.
//
// If a shard fails, its rows that changed since then are compared once the shard answers again. The other shards' window
// doesn't grow meanwhile.
//
// If the servers are others, their memory may be older than any window: everything is audited, too.
type changed struct {
	until    time.Time         // the end of the last window that was compared completely
	compared map[task.ID]int64 // versions compared in the last window, of rows that the next window overlaps
	identity string            // of the Redis servers
}

func (c *changed) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	identity, err := s.index.Identity(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	if filled := s.filled.Load(); c.identity == "" && filled != nil {
		c.identity = *filled // all that these servers remember is the term's own
	}
	to := s.now().Add(-writerTime)
	from := to.Add(-s.cfg.Longest - windowMargin)
	if overlap := c.until.Add(-s.cfg.Longest - windowMargin); !c.until.IsZero() && overlap.Before(from) {
		from = overlap // passes since then failed
	}
	others := identity != c.identity
	if others {
		c.compared = nil
		from = from.Add(-failoverWindow)
		s.alarmed = -1 // as if drift was found: many entries may be missing, so this sweep does not sleep
	}
	compared, err := s.compareChanged(ctx, "changed", from, to, c.compared, nil)
	if err := s.index.skip(err); err != nil {
		return loop.Result{}, err
	}
	if others {
		if err := c.auditOthers(ctx, s); err != nil {
			return loop.Result{}, err
		}
	}
	c.until, c.compared, c.identity = to, compared, identity
	since := s.uncompared.all()
	for shard := range s.index.failed {
		s.uncompared.add(shard, from)
		delete(since, shard)
	}
	return loop.Result{}, s.catchUp(ctx, since, to)
}

// auditOthers has everything audited, since the servers are not those of the last pass. A term that begins does not know who they
// were: it judges by their age.
func (c *changed) auditOthers(ctx context.Context, s *sweep) error {
	if c.identity == "" {
		up, err := s.index.Uptime(ctx)
		if err != nil || up >= auditAfter {
			return err
		}
	}
	s.cfg.Logger.InfoContext(ctx, "index may have an old memory, all is audited")
	s.auditAll()
	return nil
}

// catchUp compares the rows of shards that failed in earlier passes and answer now, from when they failed.
func (s *sweep) catchUp(ctx context.Context, since map[int]time.Time, to time.Time) error {
	if len(since) == 0 {
		return nil
	}
	from := slices.MinFunc(slices.Collect(maps.Values(since)), time.Time.Compare)
	_, err := s.compareChanged(ctx, "changed", from, to, nil, func(row task.Task) bool { return since[row.Shard].IsZero() })
	if err := s.index.skip(err); err != nil {
		return err
	}
	for shard, at := range since {
		if s.index.skips(shard) {
			continue
		}
		ids := s.uncompared.take(shard, at)
		for some := range slices.Chunk(ids, page) {
			if err := s.putIDs(ctx, some); err != nil {
				s.uncompared.add(shard, at, ids...)
				return err
			}
		}
	}
	return nil
}

// compareChanged compares the rows that changed in [from, to), but for those that except names and those that were compared
// before at their version. It returns the versions that it has compared, of rows that the next window overlaps.
func (s *sweep) compareChanged(
	ctx context.Context, reason string, from, to time.Time, before map[task.ID]int64, except func(row task.Task) bool,
) (map[task.ID]int64, error) {
	leaving, kept := to.Add(-s.cfg.Longest-windowMargin/2), to.Add(-s.cfg.Longest-windowMargin)
	compared := map[task.ID]int64{}
	read := func(ctx context.Context, after protocol.Cursor) (rows []task.Task, next protocol.Cursor, err error) {
		limit := s.page()
		if rows, err = s.store.Changed(ctx, from, to, after, limit); len(rows) == limit {
			next = protocol.Cursor{At: rows[limit-1].UpdatedAt, ID: rows[limit-1].ID}
		}
		if except != nil {
			rows = slices.DeleteFunc(rows, except)
		}
		return rows, next, err
	}
	_, err := new(walk).pages(ctx, s, read, nil, func(rows []task.Task) error {
		news := slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool {
			return before[row.ID] == row.Version && !row.UpdatedAt.Before(leaving)
		})
		if err := s.mendUnlike(ctx, reason, news); err != nil {
			return err
		}
		if err := s.dropElsewhere(ctx, news); err != nil {
			return err
		}
		for _, row := range s.index.without(rows) {
			if !row.UpdatedAt.Before(kept) {
				compared[row.ID] = row.Version
			}
		}
		return nil
	})
	return compared, err
}

// compareChangedSince compares what changed since a pass that was to look at every row began.
func (s *sweep) compareChangedSince(ctx context.Context, reason string, began time.Time) error {
	_, err := s.compareChanged(ctx, reason, began.Add(-s.cfg.Longest), s.now().Add(time.Millisecond), nil, nil)
	return err
}
