package console

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

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
	var rows []task.Task
	err := c.inTx(ctx, func(tx *sqlx.Tx, now time.Time) (err error) {
		rows, err = schedule.NewTx(tx, c.store).ScheduleMany(ctx, specs)
		if err != nil {
			return err
		}
		events := make([]task.Event, len(rows))
		for i, row := range rows {
			events[i] = task.Event{At: now, Task: row.ID, Name: task.EventImported, Actor: c.cfg.Actor, Detail: "from " + source}
		}
		return c.store.Record(ctx, tx, events)
	})
	c.compensate(err, rows)
	if err == nil {
		c.client.IndexTasks(ctx, rows)
	}
	return err
}
