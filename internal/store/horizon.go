package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// SetHorizon changes how far ahead tasks stand in the index, and whether the index may lack some, with a line of the history. It
// returns protocol.ErrLayoutChanged if either is no longer as l says.
func (s *Store) SetHorizon(ctx context.Context, l protocol.Layout, horizon time.Duration, partial bool, line protocol.Event) error {
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
		return cmp.Or(err, protocol.ErrLayoutChanged)
	}
	if err := s.Record(ctx, tx, []protocol.Event{line}); err != nil {
		return err
	}
	return tx.Commit()
}
