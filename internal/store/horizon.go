package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// SetHorizon changes how far ahead tasks stand in the index, and whether the index may lack some, with a line of the history. It
// returns task.ErrLayoutChanged if either is no longer as l says.
func (s *Store) SetHorizon(ctx context.Context, l task.Layout, horizon time.Duration, partial bool, line task.Event) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	r, err := tx.ExecContext(ctx, "UPDATE duetime_layout SET horizon_ms = ?, partial = ? WHERE only_row = 1 AND horizon_ms = ? AND partial = ?",
		horizon.Milliseconds(), partial, l.Horizon.Milliseconds(), l.Partial)
	if err != nil {
		return fmt.Errorf("change the horizon: %w", err)
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return cmp.Or(err, task.ErrLayoutChanged)
	}
	if err := s.Record(ctx, tx, []task.Event{line}); err != nil {
		return err
	}
	return tx.Commit()
}
