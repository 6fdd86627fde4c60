package recurrence

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Transactions are what Mend needs of the database beyond Store.
type Transactions interface {
	Store
	Begin(ctx context.Context) (*sqlx.Tx, error)
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	// Lock locks tasks' rows in id order, and returns those that exist.
	Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error)
	// Record appends lines to the history.
	Record(ctx context.Context, q sqlx.ExtContext, events []task.Event) error
}

// Mend makes the next tasks of recurrences that were read without a lock, where the newest one has ended or has no row, in a
// transaction of its own. The actor is that of the history's lines.
func Mend(ctx context.Context, store Transactions, read []task.Recurrence, actor string) (*Progress, error) {
	tx, err := store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	now, err := store.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	p, err := leftBehind(ctx, tx, store, read)
	if err != nil || p.Empty() {
		return p, err
	}
	if err := p.Write(ctx, tx, store, now); err != nil {
		return nil, err
	}
	for i := range p.notes {
		p.notes[i].Actor = actor
	}
	if err := store.Record(ctx, tx, p.notes); err != nil {
		return nil, err
	}
	return p, tx.Commit()
}

// leftBehind notes the recurrences whose newest task is pending no more, by its locked row. A task that was run to its end
// meanwhile has made the next one: Write sees that it is the newest no more.
func leftBehind(ctx context.Context, tx *sqlx.Tx, store Transactions, read []task.Recurrence) (*Progress, error) {
	var ids []task.ID
	for _, r := range read {
		if !r.Newest.IsZero() {
			ids = append(ids, r.Newest)
		}
	}
	var rows map[task.ID]task.Task
	if len(ids) > 0 {
		locked, err := store.Lock(ctx, tx, ids)
		if err != nil {
			return nil, err
		}
		rows = task.ByID(locked)
	}
	p := &Progress{}
	for _, r := range read {
		if row, found := rows[r.Newest]; !found || row.State != task.Pending {
			p.Lost(r)
		}
	}
	return p, nil
}
