package reconcile

import (
	"context"
	"slices"

	"github.com/duetime/duetime/internal/loop"
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
	after task.Cursor
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
	if s.after = (task.Cursor{}); len(rows) == page {
		last := rows[page-1]
		s.after = task.Cursor{At: last.DueAt, ID: last.ID}
	}
	return loop.Result{More: len(rows) == page}, nil
}

func (s *recurrences) mend(ctx context.Context, part []task.Recurrence) error {
	p, err := recurrence.Mend(ctx, s.r.store, part, s.r.cfg.Name)
	if err != nil {
		return err
	}
	made := p.Made()
	if p.Empty() {
		return nil
	}
	s.r.metrics.ticks.Count(p.Ticks())
	s.r.metrics.mended.Add(float64(len(made)))
	s.r.cfg.Logger.WarnContext(ctx, "recurrences left behind", "n", len(made))
	return s.r.putIDs(ctx, task.IDs(made))
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
