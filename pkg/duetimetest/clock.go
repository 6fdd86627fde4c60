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

// Each method of worker.Store that returns the database's time has its own version here: a promoted one would put a handler's
// transaction back to the present.

// Now returns this clock's time.
func (a *ahead) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	now, err := a.tables.Now(ctx, q)
	return now.Add(a.by), err
}

// NowAndBlocked reads as the store does; its time is this clock's.
func (a *ahead) NowAndBlocked(ctx context.Context, q sqlx.QueryerContext, owners []string) (time.Time, string, error) {
	now, blocked, err := a.tables.NowAndBlocked(ctx, q, owners)
	return now.Add(a.by), blocked, err
}

// LockFree locks as the store does; its time is this clock's.
func (a *ahead) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockFree(ctx, q, ids)
	return rows, now.Add(a.by), err
}

// LockToRun locks as the store does; its time is this clock's.
func (a *ahead) LockToRun(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, map[task.ID]bool, time.Time, error) {
	rows, blocked, now, err := a.tables.LockToRun(ctx, q, ids)
	return rows, blocked, now.Add(a.by), err
}

// LockOwner locks as the store does; its time is this clock's, and zero if there are no rows.
func (a *ahead) LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockOwner(ctx, q, owner, kind)
	if !now.IsZero() {
		now = now.Add(a.by)
	}
	return rows, now, err
}

// LockDue locks what is due by this clock; its time is this clock's, and zero if there are no rows.
func (a *ahead) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (
	[]task.Task, bool, map[string]bool, time.Time, error,
) {
	rows, blocked, paused, now, err := a.tables.LockDue(ctx, q, owner, soon+a.by, limit)
	if !now.IsZero() {
		now = now.Add(a.by)
	}
	return rows, blocked, paused, now, err
}

// LockToRunNow locks as the store does; its time is this clock's.
func (a *ahead) LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) ([]task.Task, bool, map[string]bool, time.Time, error) {
	rows, blocked, paused, now, err := a.tables.LockToRunNow(ctx, q, id)
	return rows, blocked, paused, now.Add(a.by), err
}

// Clock returns this clock's time, as finely as the database tells.
func (a *ahead) Clock(ctx context.Context) (time.Time, error) {
	now, err := a.tables.Clock(ctx)
	return now.Add(a.by), err
}

// Floor is a place among the rows, which moves with none of this clock's steps.
func (a *ahead) Floor(ctx context.Context) (time.Time, error) { return a.tables.Floor(ctx) }
