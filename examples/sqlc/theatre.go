// Package theatre shows a service on sqlc and duetime: a seat is held for some minutes and then free again. The theatre keeps
// its times in DATETIME columns of its own, in the zone of its DSN (loc and time_zone), and duetime leaves them alone.
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

// New makes a theatre that holds seats for so long.
func New(tasks *schedule.Client, hold time.Duration) *Theatre {
	return &Theatre{tasks: tasks, hold: hold}
}

// Hold holds the seat, schedules its release, and subscribes the guest to the newsletter, in one transaction. Who is
// subscribed already stays so: that nested transaction alone is rolled back.
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

// nested runs fn between savepoints, and goes on without what it did where it fails.
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

// Handlers returns what the theatre does when a release is due.
func (t *Theatre) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, SeatRelease, func(ctx context.Context, tx *worker.Tx, due worker.Task[Release]) error {
		return query.New(tx).FreeSeat(ctx, query.FreeSeatParams{ID: due.Payload.Seat, ReleaseID: due.ID})
	})
	return mux
}
