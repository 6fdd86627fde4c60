package duetimetest

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// ahead gives the worker a clock that is ahead of the database's. Between two steps it goes on like any clock, and it
// never goes back.
type ahead struct {
	tables
	by time.Duration
}

// step sets the clock to the moment, unless the clock is later already, and returns the database's time.
func (a *ahead) step(ctx context.Context, moment time.Time) (time.Time, error) {
	now, err := a.tables.Now(ctx, nil)
	if err != nil {
		return now, err
	}
	a.by = max(a.by, moment.Sub(now))
	return now, nil
}

// Now returns this clock's time.
func (a *ahead) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	now, err := a.tables.Now(ctx, q)
	return now.Add(a.by), err
}

// LockFree locks as the store does; its time is this clock's.
func (a *ahead) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockFree(ctx, q, ids)
	return rows, now.Add(a.by), err
}
