package console

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Clock reads the database's clock.
func (c *Console) Clock(ctx context.Context) (time.Time, error) { return c.store.Clock(ctx) }

// Rows reads the rows of these ids without locking; it leaves out missing ones.
func (c *Console) Rows(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return c.store.Get(ctx, nil, ids)
}

// Import commits up to task.MaxPerCall tasks that waited in a source, each with its line of history, and has them put into
// the index. It leaves a row as it is that has one of the ids.
func (c *Console) Import(ctx context.Context, specs []task.Spec, source string) error {
	return c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		rows, err := schedule.NewTx(tx, c.store).ScheduleMany(ctx, specs)
		if err != nil {
			return err
		}
		changes.Inserted(rows)
		for _, row := range rows {
			e := event(changes, protocol.EventImported, "from "+source)
			e.Task = row.ID
			changes.Note(e)
		}
		return nil
	})
}
