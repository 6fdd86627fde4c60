package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Layout is what all processes of a schema agree on.
type Layout struct {
	Namespace string
	Shards    int // new rows go to CRC32(owner) mod this
	Ever      int // the most shards that there have ever been: rows of that time are indexed there still
}

// settle returns the shard in which a row is indexed: its own, or its owner's if no process polls that one, as when
// another language's service took a wrong number.
func (l Layout) settle(t task.Task) int {
	if t.Shard >= 0 && t.Shard < l.Ever {
		return t.Shard
	}
	return task.Shard(t.Owner, l.Shards)
}

// Layout reads the layout afresh. It answers ErrNoSchema before the first migration.
func (s *Store) Layout(ctx context.Context) (Layout, error) { return s.readLayout(ctx, s.db) }

// Shards returns over how many shards new rows spread.
func (s *Store) Shards(ctx context.Context) (int, error) {
	l, err := s.Layout(ctx)
	return l.Shards, err
}

// ShardsEver returns how many shards must be polled: as many as there have ever been, since older rows stay where they are.
func (s *Store) ShardsEver(ctx context.Context) (int, error) {
	l, err := s.Layout(ctx)
	return l.Ever, err
}

// cachedLayout returns the layout as last read, at the first need through q, since a caller in a transaction may hold the
// pool's only connection. An old count is harmless: the row says where it is indexed.
func (s *Store) cachedLayout(ctx context.Context, q sqlx.QueryerContext) (Layout, error) {
	if l := s.layout.Load(); l != nil {
		return *l, nil
	}
	return s.readLayout(ctx, s.handle(q))
}

func (s *Store) readLayout(ctx context.Context, q sqlx.QueryerContext) (Layout, error) {
	var l Layout
	err := q.QueryRowxContext(ctx, "SELECT namespace, shards, shards_ever FROM duetime_layout WHERE only_row = 1").
		Scan(&l.Namespace, &l.Shards, &l.Ever)
	if errors.Is(err, sql.ErrNoRows) || Classify(err) == NoTable {
		return l, ErrNoSchema
	}
	if err != nil {
		return l, fmt.Errorf("read layout: %w", err)
	}
	s.layout.Store(&l)
	return l, nil
}

// claimLayout writes the layout if there is none, and checks whose it is.
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
