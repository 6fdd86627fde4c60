package duetimetest

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// ahead is the tables with a clock that is ahead of the database's: what the worker believes the time to be. It goes on
// like any clock between two steps, and never back.
type ahead struct {
	tables
	by time.Duration
}

// step sets the clock to the moment, unless it is later already, and gives the database's time.
func (a *ahead) step(ctx context.Context, moment time.Time) (time.Time, error) {
	now, err := a.tables.Now(ctx, nil)
	if err != nil {
		return now, err
	}
	a.by = max(a.by, moment.Sub(now))
	return now, nil
}

// Now is the database's time, so far ahead.
func (a *ahead) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	now, err := a.tables.Now(ctx, q)
	return now.Add(a.by), err
}

// LockFree locks as the store does; its time is that of this clock.
func (a *ahead) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockFree(ctx, q, ids)
	return rows, now.Add(a.by), err
}
