package duetimetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// ahead gives the worker a clock that is ahead of the database's. Between two steps it goes on like any clock, and it
// never goes back.
type ahead struct {
	tables
	by atomic.Int64 // nanoseconds
}

func (a *ahead) ahead() time.Duration { return time.Duration(a.by.Load()) }

// step sets the clock to the moment, unless the clock is later already, and returns the database's time.
func (a *ahead) step(ctx context.Context, moment time.Time) (time.Time, error) {
	now, err := a.tables.Now(ctx, nil)
	if err != nil {
		return now, err
	}
	a.by.Store(max(a.by.Load(), int64(moment.Sub(now))))
	return now, nil
}

// Each method of engine.Store and of a client's store that returns the database's time has its own version here: a promoted one would put a handler's
// transaction back to the present.

// Now returns this clock's time.
func (a *ahead) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	now, err := a.tables.Now(ctx, q)
	return now.Add(a.ahead()), err
}

// NowAndBlocked reads as the store does; its time is this clock's.
func (a *ahead) NowAndBlocked(ctx context.Context, q sqlx.QueryerContext, owners []string) (time.Time, string, error) {
	now, blocked, err := a.tables.NowAndBlocked(ctx, q, owners)
	return now.Add(a.ahead()), blocked, err
}

// LockFree locks as the store does; its time is this clock's.
func (a *ahead) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockFree(ctx, q, ids)
	return rows, now.Add(a.ahead()), err
}

// ReadFree reads as the store does; its time is this clock's.
func (a *ahead) ReadFree(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error) {
	row, now, free, err := a.tables.ReadFree(ctx, id)
	return row, now.Add(a.ahead()), free, err
}

// InsertAutocommit leaves the rows to a transaction, for the statement's times are the database's own.
func (a *ahead) InsertAutocommit(context.Context, []task.Spec) ([]task.Task, error) { return nil, nil }

// LockToRun locks as the store does; its time is this clock's.
func (a *ahead) LockToRun(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, map[task.ID]protocol.Bar, time.Time, error) {
	rows, bars, now, err := a.tables.LockToRun(ctx, q, ids)
	return rows, bars, now.Add(a.ahead()), err
}

// LockOwner locks as the store does; its time is this clock's, and zero if there are no rows.
func (a *ahead) LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error) {
	rows, now, err := a.tables.LockOwner(ctx, q, owner, kind)
	if !now.IsZero() {
		now = now.Add(a.ahead())
	}
	return rows, now, err
}

// LockDue locks what is due by this clock; its time is this clock's, and zero if there are no rows.
func (a *ahead) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (protocol.Due, error) {
	due, err := a.tables.LockDue(ctx, q, owner, soon+a.ahead(), limit)
	return a.later(due), err
}

// LockDueInOrder locks what is due by this clock; its time is this clock's, and zero if there are no rows.
func (a *ahead) LockDueInOrder(ctx context.Context, q sqlx.ExtContext, key string, soon time.Duration, limit int) (protocol.Due, error) {
	due, err := a.tables.LockDueInOrder(ctx, q, key, soon+a.ahead(), limit)
	return a.later(due), err
}

func (a *ahead) later(due protocol.Due) protocol.Due {
	if !due.Now.IsZero() {
		due.Now = due.Now.Add(a.ahead())
	}
	return due
}

// LockToRunNow locks as the store does; its time is this clock's.
func (a *ahead) LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) (protocol.Due, error) {
	due, err := a.tables.LockToRunNow(ctx, q, id)
	return a.later(due), err
}

// Clock returns this clock's time, as finely as the database tells.
func (a *ahead) Clock(ctx context.Context) (time.Time, error) {
	now, err := a.tables.Clock(ctx)
	return now.Add(a.ahead()), err
}

// Floor is a place among the rows, which moves with none of this clock's steps.
func (a *ahead) Floor(ctx context.Context) (time.Time, error) { return a.tables.Floor(ctx) }

// Clock is a test's time: the database's, moved on by Advance. A client and the handlers go by it. It is safe for concurrent use, but for
// Advance.
type Clock struct{ store *ahead }

// NewClock makes a clock that shows the database's time. Clients that are to go by it get it from On.
func NewClock(t testing.TB, db DB) *Clock {
	t.Helper()
	return &Clock{&ahead{tables: opened(t, db)}}
}

// Now returns the clock's time.
func (c *Clock) Now(t testing.TB) time.Time {
	t.Helper()
	ctx, cancel := inDeadline(t)
	defer cancel()
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		t.Fatalf("duetimetest.Clock: %v", err)
	}
	return now
}

// Advance moves the clock on by d, and runs what becomes due by then as Fire does, each task at its own time. A nil mux runs nothing: what is
// due waits, as while every worker is away. The clock stands at the end of d when Advance returns.
func (c *Clock) Advance(t testing.TB, d time.Duration, mux *worker.Mux, opts ...Option) []Fired {
	t.Helper()
	until := c.Now(t).Add(d)
	var fired []Fired
	if mux != nil {
		fired = fire(t, c.store, mux, until, opts)
	}
	ctx, cancel := inDeadline(t)
	defer cancel()
	if _, err := c.store.step(ctx, until); err != nil {
		t.Fatalf("duetimetest.Clock: %v", err)
	}
	return fired
}
