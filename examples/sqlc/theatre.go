// Package theatre shows a service on sqlc and duetime: a seat is held for some minutes and then free again. The theatre
// keeps its times in DATETIME columns of its own, in the zone of its DSN (loc and time_zone), and duetime does not change
// them.
package theatre

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/examples/sqlc/query"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Release is the payload of a task that frees a seat.
type Release struct {
	Seat int64 `json:"seat"`
}

// SeatRelease is declared once, for the side that schedules and for the side that runs.
var SeatRelease = task.NewKind[Release]("seat.release")

// ErrTaken answers Hold for a seat that somebody else holds.
var ErrTaken = errors.New("the seat is taken")

// Theatre holds seats.
type Theatre struct {
	tasks *schedule.Client
	hold  time.Duration
}

// New makes a theatre that holds seats for this long.
func New(tasks *schedule.Client, hold time.Duration) *Theatre {
	return &Theatre{tasks: tasks, hold: hold}
}

// Hold holds the seat, schedules its release, and subscribes the guest to the newsletter, in one transaction. If the
// guest is subscribed already, only the nested transaction of the subscription is rolled back.
func (t *Theatre) Hold(ctx context.Context, seat int64, guest string) (until time.Time, err error) {
	err = t.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		release, err := tx.Schedule(ctx, SeatRelease.New(guest, Release{seat}, task.In(t.hold)))
		if err != nil {
			return err
		}
		until = release.DueAt
		queries := query.New(tx)
		n, err := queries.HoldSeat(ctx, query.HoldSeatParams{
			ID: seat, Guest: sql.NullString{String: guest, Valid: true},
			HeldUntil: sql.NullTime{Time: until, Valid: true}, ReleaseID: release.ID,
		})
		switch {
		case err != nil:
			return fmt.Errorf("hold seat %d: %w", seat, err)
		case n == 0:
			return ErrTaken // rolls the release back too
		}
		return nested(ctx, tx, func() error { return queries.Subscribe(ctx, guest) })
	})
	return until, err
}

// nested runs fn between savepoints. If fn fails, it rolls back to the savepoint and goes on.
func nested(ctx context.Context, tx *schedule.Tx, fn func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT nested"); err != nil {
		return err
	}
	if fn() == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT nested")
	return err
}

// Handlers returns the theatre's handlers.
func (t *Theatre) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, SeatRelease, func(ctx context.Context, tx *worker.Tx, due worker.Task[Release]) error {
		return query.New(tx).FreeSeat(ctx, query.FreeSeatParams{ID: due.Payload.Seat, ReleaseID: due.ID})
	})
	return mux
}
