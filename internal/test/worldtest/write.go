package worldtest

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// Save writes the next versions of rows over what stands.
func Save(ctx context.Context, s *store.Store, q sqlx.ExtContext, next ...task.Task) error {
	stands, err := s.Get(ctx, q, task.IDs(next))
	if err != nil {
		return err
	}
	before := task.ByID(stands)
	changes := make([]task.Change, len(next))
	for i, t := range next {
		changes[i] = task.Change{Before: before[t.ID], After: t}
	}
	return s.Write(ctx, q, changes)
}

// Finish marks tasks done at this moment, given as they were before.
func Finish(ctx context.Context, s *store.Store, q sqlx.ExtContext, tasks []task.Task, now time.Time) error {
	changes := make([]task.Change, len(tasks))
	for i, t := range tasks {
		changes[i] = task.Change{Before: t, After: t.Finish(now)}
	}
	return s.Write(ctx, q, changes)
}
