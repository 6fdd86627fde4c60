package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Layout reads the layout from the database. It returns ErrNoSchema before the first migration.
func (s *Store) Layout(ctx context.Context) (task.Layout, error) { return s.readLayout(ctx, s.db) }

// unknownColumn is MySQL's answer if a table lacks a column.
const unknownColumn = 1054

// cachedLayout returns the layout as last read. The first call reads it through q, since a caller in a transaction may
// hold the pool's only connection. An old layout is harmless: each row says in which shard it is indexed.
func (s *Store) cachedLayout(ctx context.Context, q sqlx.QueryerContext) (task.Layout, error) {
	var l task.Layout
	if cached := s.layout.Load(); cached != nil {
		l = *cached
	} else {
		var err error
		if l, err = s.readLayout(ctx, s.handle(q)); err != nil {
			return l, err
		}
	}
	if s.namespace != "" && l.Namespace != s.namespace {
		return l, fmt.Errorf("%w: it is of %q, this process of %q", ErrNamespace, l.Namespace, s.namespace)
	}
	return l, nil
}

func (s *Store) readLayout(ctx context.Context, q sqlx.QueryerContext) (task.Layout, error) {
	var l task.Layout
	err := q.QueryRowxContext(ctx, "SELECT namespace, deployment, shards, shards_ever FROM duetime_layout WHERE only_row = 1").
		Scan(&l.Namespace, &l.Deployment, &l.Shards, &l.ShardsEver)
	switch {
	case errors.Is(err, sql.ErrNoRows) || Classify(err) == NoTable:
		return l, ErrNoSchema
	case serverNumber(err) == unknownColumn:
		return l, ErrOldSchema
	case err != nil:
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
