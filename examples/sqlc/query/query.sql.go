package query

import (
	"context"
	"database/sql"

	"github.com/duetime/duetime/pkg/task"
)

// Seat is a row of seats.
type Seat struct {
	ID        int64
	Guest     sql.NullString
	HeldUntil sql.NullTime
	ReleaseID task.ID
}

const freeSeat = `-- name: FreeSeat :exec
UPDATE seats SET guest = NULL, held_until = NULL, release_id = NULL WHERE id = ? AND release_id = ?
`

// FreeSeatParams are the parameters of FreeSeat.
type FreeSeatParams struct {
	ID        int64
	ReleaseID task.ID
}

// FreeSeat frees a seat that is held under this task.
func (q *Queries) FreeSeat(ctx context.Context, arg FreeSeatParams) error {
	_, err := q.db.ExecContext(ctx, freeSeat, arg.ID, arg.ReleaseID)
	return err
}

const getSeat = `-- name: GetSeat :one
SELECT id, guest, held_until, release_id FROM seats WHERE id = ?
`

// GetSeat reads a seat.
func (q *Queries) GetSeat(ctx context.Context, id int64) (Seat, error) {
	row := q.db.QueryRowContext(ctx, getSeat, id)
	var i Seat
	err := row.Scan(&i.ID, &i.Guest, &i.HeldUntil, &i.ReleaseID)
	return i, err
}

const holdSeat = `-- name: HoldSeat :execrows
UPDATE seats SET guest = ?, held_until = ?, release_id = ? WHERE id = ? AND guest IS NULL
`

// HoldSeatParams are the parameters of HoldSeat.
type HoldSeatParams struct {
	Guest     sql.NullString
	HeldUntil sql.NullTime
	ReleaseID task.ID
	ID        int64
}

// HoldSeat holds a seat, and answers 0 where it is held already.
func (q *Queries) HoldSeat(ctx context.Context, arg HoldSeatParams) (int64, error) {
	result, err := q.db.ExecContext(ctx, holdSeat, arg.Guest, arg.HeldUntil, arg.ReleaseID, arg.ID)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

const subscribe = `-- name: Subscribe :exec
INSERT INTO newsletters (guest) VALUES (?)
`

// Subscribe adds a guest to the newsletter.
func (q *Queries) Subscribe(ctx context.Context, guest string) error {
	_, err := q.db.ExecContext(ctx, subscribe, guest)
	return err
}
