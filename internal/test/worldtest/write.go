package worldtest

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Save writes the next versions of rows over what stands.
func Save(ctx context.Context, s *store.Store, q sqlx.ExtContext, next ...task.Task) error {
	stands, err := s.Get(ctx, q, protocol.IDs(next))
	if err != nil {
		return err
	}
	before := protocol.ByID(stands)
	changes := make([]transition.Change, len(next))
	for i, t := range next {
		changes[i] = transition.Change{Before: before[t.ID], After: t}
	}
	return s.Write(ctx, q, changes)
}

// Finish marks tasks done at this moment, given as they were before.
func Finish(ctx context.Context, s *store.Store, q sqlx.ExtContext, tasks []task.Task, now time.Time) error {
	changes := make([]transition.Change, len(tasks))
	for i, t := range tasks {
		changes[i] = transition.Change{Before: t, After: transition.Finish(t, now)}
	}
	return s.Write(ctx, q, changes)
}
