package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Layout reads the layout from the database. It returns ErrNoSchema before the first migration.
func (s *Store) Layout(ctx context.Context) (protocol.Layout, error) {
	began := time.Now()
	l, err := s.readLayout(ctx, s.db)
	if err == nil {
		s.keep(&layoutCopy{l, began})
	}
	return l, err
}

// A process uses its copy of the layout for a second, then reads the row in the background. Only an insert waits for the
// row, if the copy is older than maxLayoutAge: its rows must not go to a shard of long ago. The daemon begins to move rows
// when all copies have aged that much.
const (
	layoutRefresh = time.Second
	maxLayoutAge  = 5 * time.Second
	layoutTimeout = 2 * time.Second // of a read in the background
)

// layoutCopy is the layout as it was at a moment of this process's clock, or later.
type layoutCopy struct {
	protocol.Layout
	at time.Time
}

// lastTime is when something last happened. It keeps the monotonic clock: setting the host's clock back must not make it recent.
type lastTime struct{ at atomic.Pointer[time.Time] }

func (l *lastTime) set(at time.Time) { l.at.Store(&at) }

// isRecent reports whether it happened in the last d.
func (l *lastTime) isRecent(d time.Duration) bool {
	at := l.at.Load()
	return at != nil && time.Since(*at) < d
}

// RecentLayout returns the layout as it was read at most some seconds ago, from a server that may be written. While the
// database doesn't answer, it returns the last copy, whatever its age: then nobody moves rows either.
func (s *Store) RecentLayout(ctx context.Context) (protocol.Layout, error) {
	c := s.layout.Load()
	switch {
	case c == nil:
	case time.Since(c.at) <= maxLayoutAge:
		s.refreshIfOld(c)
		return c.Layout, nil
	case s.failed.isRecent(layoutRefresh):
		return c.Layout, nil
	}
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	l, err := s.refresh(ctx)
	if err != nil && c != nil && !errors.Is(err, ErrNoSchema) && !errors.Is(err, ErrOldSchema) {
		return c.Layout, nil
	}
	return l, err
}

// refresh reads the layout from a server that may be written: an old primary that lives on would show an old layout.
func (s *Store) refresh(ctx context.Context) (protocol.Layout, error) {
	began := time.Now()
	l, err := scanLayout(s.db.QueryRowxContext(ctx, s.dialect.stateThen(layoutColumns)+fromLayout), writable{})
	if err != nil {
		s.failed.set(time.Now())
		return l, err
	}
	s.keep(&layoutCopy{l, began})
	return l, nil
}

// cachedLayout returns the last copy of the layout, for reading rows. An old copy is harmless there: each row says in which
// shard it is indexed.
func (s *Store) cachedLayout(ctx context.Context, q sqlx.QueryerContext) (protocol.Layout, error) {
	return s.copyOf(ctx, q, math.MaxInt64)
}

// placingLayout is cachedLayout for inserts: it reads the layout if the copy is older than maxLayoutAge.
func (s *Store) placingLayout(ctx context.Context, q sqlx.QueryerContext) (protocol.Layout, error) {
	return s.copyOf(ctx, q, maxLayoutAge)
}

// copyOf returns the copy of the layout, or reads the layout through q if the copy is too old: a caller in a transaction may
// hold the pool's only connection. What a transaction reads may be as old as its snapshot, so it becomes the copy only if
// there is none, and then an old one.
func (s *Store) copyOf(ctx context.Context, q sqlx.QueryerContext, maxAge time.Duration) (l protocol.Layout, err error) {
	c := s.layout.Load()
	if c != nil {
		s.refreshIfOld(c)
	}
	if c != nil && time.Since(c.at) <= maxAge {
		l = c.Layout
	} else {
		began := time.Now()
		if l, err = s.readLayout(ctx, s.handle(q)); err != nil {
			return l, err
		}
		if q != nil && q != sqlx.QueryerContext(s.db) {
			began = began.Add(-maxLayoutAge)
		}
		if c == nil || time.Since(began) < maxLayoutAge {
			s.keep(&layoutCopy{l, began})
		}
	}
	return l, s.checkNamespace(l)
}

func (s *Store) checkNamespace(l protocol.Layout) error {
	if s.namespace != "" && l.Namespace != s.namespace {
		return fmt.Errorf("%w: it is of %q, this process of %q", ErrNamespace, l.Namespace, s.namespace)
	}
	return nil
}

// refreshIfOld reads the layout in the background, unless the copy is young or a read is under way.
func (s *Store) refreshIfOld(c *layoutCopy) {
	if time.Since(c.at) < layoutRefresh || s.tried.isRecent(layoutRefresh) || !s.refreshing.CompareAndSwap(false, true) {
		return
	}
	s.tried.set(time.Now())
	s.refreshes.Go(func() {
		defer s.refreshing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), layoutTimeout)
		defer cancel()
		_, _ = s.refresh(ctx) // a failed read is repeated after a second
	})
}

const (
	layoutColumns = "namespace, deployment, shards, shards_ever, generation, shards_from, paused, moved, to_move, horizon_ms, partial"
	fromLayout    = " FROM duetime_layout WHERE only_row = 1"
)

func (s *Store) readLayout(ctx context.Context, q sqlx.QueryerContext) (protocol.Layout, error) {
	return scanLayout(q.QueryRowxContext(ctx, "SELECT "+layoutColumns+fromLayout))
}

// scanLayout reads the layout's row; the columns before the layout's are scanned into first.
func scanLayout(row *sqlx.Row, first ...any) (l protocol.Layout, err error) {
	var horizon int64
	err = row.Scan(append(first, &l.Namespace, &l.Deployment, &l.Shards, &l.ShardsEver,
		&l.Generation, &l.ShardsFrom, &l.Paused, &l.Moved, &l.ToMove, &horizon, &l.Partial)...)
	l.Horizon = time.Duration(horizon) * time.Millisecond
	switch {
	case errors.Is(err, sql.ErrNoRows) || Classify(err) == NoTable:
		return l, ErrNoSchema
	case serverNumber(err) == unknownColumn:
		return l, ErrOldSchema
	case err != nil:
		return l, fmt.Errorf("read layout: %w", closed(err))
	}
	return l, nil
}

// keep stores a copy of the layout unless a newer one is there: reads may overtake each other.
func (s *Store) keep(c *layoutCopy) {
	for {
		before := s.layout.Load()
		if before != nil && before.at.After(c.at) || s.layout.CompareAndSwap(before, c) {
			return
		}
	}
}

// claimLayout writes the layout if there is none, and checks its namespace.
func (s *Store) claimLayout(ctx context.Context, namespace string, shards int) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO duetime_layout (only_row, namespace, shards, shards_ever) VALUES (1, ?, ?, ?)"+
		s.dialect.ignoreTaken("only_row"), namespace, shards, shards)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	_, err = s.db.ExecContext(ctx, s.db.Rebind("UPDATE duetime_layout SET deployment = ? WHERE deployment = ''"), task.NewID().String())
	if err != nil {
		return fmt.Errorf("write the deployment's id: %w", err)
	}
	l, err := s.Layout(ctx)
	if err != nil {
		return err
	}
	if l.Namespace != namespace {
		return fmt.Errorf("%w: %s, not %s", ErrNamespace, l.Namespace, namespace)
	}
	return nil
}
