package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Layout reads the layout afresh. It returns ErrNoSchema before the first migration.
func (s *Store) Layout(ctx context.Context) (task.Layout, error) { return s.readLayout(ctx, s.db) }

// cachedLayout returns the layout as last read. The first call reads it through q, since a caller in a transaction may hold the
// pool's only connection. An old layout is harmless: a row says itself where it is indexed.
func (s *Store) cachedLayout(ctx context.Context, q sqlx.QueryerContext) (task.Layout, error) {
	if l := s.layout.Load(); l != nil {
		return *l, nil
	}
	return s.readLayout(ctx, s.handle(q))
}

func (s *Store) readLayout(ctx context.Context, q sqlx.QueryerContext) (task.Layout, error) {
	var l task.Layout
	err := q.QueryRowxContext(ctx, "SELECT namespace, shards, shards_ever FROM duetime_layout WHERE only_row = 1").
		Scan(&l.Namespace, &l.Shards, &l.ShardsEver)
	if errors.Is(err, sql.ErrNoRows) || Classify(err) == NoTable {
		return l, ErrNoSchema
	}
	if err != nil {
		return l, fmt.Errorf("read layout: %w", err)
	}
	s.layout.Store(&l)
	return l, nil
}

// claimLayout writes the layout if there is none, and checks its namespace.
func (s *Store) claimLayout(ctx context.Context, namespace string, shards int) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO duetime_layout (only_row, namespace, shards, shards_ever) VALUES (1, ?, ?, ?)"+
		s.dialect.ignoreTaken("only_row"), namespace, shards, shards)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
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
