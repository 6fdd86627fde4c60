package reconcile

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// readTimeout bounds the small reads of the passes. A reachable server answers them within milliseconds. A server that
// was cut off may never answer, and a pass that waits for it does nothing else.
const readTimeout = 5 * time.Second

// bounded is a store whose small reads have a timeout.
type bounded struct{ Store }

func withTimeout[T any](ctx context.Context, read func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return read(ctx)
}

func (b bounded) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	return withTimeout(ctx, func(ctx context.Context) (time.Time, error) { return b.Store.Now(ctx, q) })
}

func (b bounded) Moment(ctx context.Context, name string) (now time.Time, epoch int64, err error) {
	now, err = withTimeout(ctx, func(ctx context.Context) (now time.Time, err error) {
		now, epoch, err = b.Store.Moment(ctx, name)
		return now, err
	})
	return now, epoch, err
}

func (b bounded) Paused(ctx context.Context) (map[string]time.Time, error) {
	return withTimeout(ctx, b.Store.Paused)
}

func (b bounded) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return withTimeout(ctx, func(ctx context.Context) ([]task.Task, error) { return b.Store.Entries(ctx, ids) })
}

func (b bounded) Floor(ctx context.Context) (time.Time, error) {
	return withTimeout(ctx, b.Store.Floor)
}

// PendingExcept has a timeout, except for the large pages of a rebuild, which take long on a cold disk.
func (b bounded) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) (rows []task.Task, next protocol.Cursor, err error) {
	read := func(ctx context.Context) ([]task.Task, error) {
		rows, next, err = b.Store.PendingExcept(ctx, except, from, to, after, limit)
		return rows, err
	}
	if limit > page {
		_, err = read(ctx)
	} else {
		_, err = withTimeout(ctx, read)
	}
	return rows, next, err
}
