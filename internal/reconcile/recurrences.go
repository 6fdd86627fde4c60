package reconcile

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/pkg/task"
)

// mendAtOnce is how many recurrences one transaction mends: it locks them.
const mendAtOnce = 100

// recurrences meets the recurrences whose newest task should have been due, and makes the next task of those that were left
// behind: the newest task has ended by SQL of somebody else, or its row has vanished, as by a restore. A recurrence cannot end
// without a word, whatever becomes of its task.
type recurrences struct {
	r     *Reconciler
	after protocol.Cursor
}

func (s *recurrences) pass(ctx context.Context, now clock) (loop.Result, error) {
	rows, err := s.r.store.DueRecurrences(ctx, now(), s.after, page)
	if err != nil {
		return loop.Result{}, err
	}
	left, err := s.leftBehind(ctx, rows, now)
	if err != nil {
		return loop.Result{}, err
	}
	for part := range slices.Chunk(left, mendAtOnce) {
		if err := s.mend(ctx, part); err != nil {
			return loop.Result{}, err
		}
	}
	if s.after = (protocol.Cursor{}); len(rows) == page {
		last := rows[page-1]
		s.after = protocol.Cursor{At: last.DueAt, ID: last.ID}
	}
	return loop.Result{More: len(rows) == page}, nil
}

func (s *recurrences) mend(ctx context.Context, part []task.Recurrence) error {
	var lost recurrence.Progress
	tx, err := ledger.Transact(ctx, s.r.store, s.r.cfg.Hooks, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx := ledger.NewTx(began, s.r.store, s.r.cfg.Name)
		now, err := tx.Now(ctx)
		if err != nil {
			return tx, err
		}
		if err := s.lose(ctx, began, &lost, part); err != nil {
			return tx, err
		}
		if err := tx.Advance(ctx, &lost, now); err != nil {
			return tx, err
		}
		return tx, tx.Record(ctx)
	})
	if err != nil || lost.Empty() {
		return err
	}
	n := len(tx.Touched(0))
	s.r.metrics.mended.Add(float64(n))
	s.r.cfg.Logger.WarnContext(ctx, "recurrences left behind", "n", n)
	return s.r.follow(ctx, "compensated", tx)
}

// lose notes the recurrences whose newest task is pending no more, by its locked row. A task that was run to its end meanwhile has
// made the next one: Progress sees that it is the newest no more.
func (s *recurrences) lose(ctx context.Context, q sqlx.ExtContext, lost *recurrence.Progress, part []task.Recurrence) error {
	var ids []task.ID
	for _, r := range part {
		if !r.Newest.IsZero() {
			ids = append(ids, r.Newest)
		}
	}
	var rows map[task.ID]task.Task
	if len(ids) > 0 {
		locked, err := s.r.store.Lock(ctx, q, ids)
		if err != nil {
			return err
		}
		rows = protocol.ByID(locked)
	}
	for _, r := range part {
		if row, found := rows[r.Newest]; !found || row.State != task.Pending {
			lost.Lost(r)
		}
	}
	return nil
}

// leftBehind returns those of the recurrences that need a task. A task that ended just now may have a next one by now.
func (s *recurrences) leftBehind(ctx context.Context, rows []task.Recurrence, now clock) ([]task.Recurrence, error) {
	var named []task.Task
	for _, r := range rows {
		if !r.Newest.IsZero() {
			named = append(named, task.Task{ID: r.Newest})
		}
	}
	newest, err := s.r.rows(ctx, named)
	if err != nil {
		return nil, err
	}
	settled := now().Add(-s.r.cfg.Grace)
	return slices.DeleteFunc(slices.Clone(rows), func(r task.Recurrence) bool {
		t, found := newest[r.Newest]
		switch {
		case !found: // or the look has met a replica that lags
			return r.UpdatedAt.After(settled)
		case t.State == task.Pending:
			return true
		default:
			return t.UpdatedAt.After(settled)
		}
	}), nil
}
