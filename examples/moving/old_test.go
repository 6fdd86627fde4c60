package moving_test

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/examples/moving"
)

// old is the service's version of before: it knows the table alone, and cron calls its scan.
type old struct{ db *sqlx.DB }

func (o old) start(ctx context.Context, id int64, customer string, endsAt time.Time) error {
	_, err := o.db.ExecContext(ctx, "INSERT INTO trials VALUES (?, ?, ?, 'open')", id, customer, endsAt.UnixMilli())
	return err
}

func (o old) extend(ctx context.Context, id int64, endsAt time.Time) error {
	_, err := o.db.ExecContext(ctx, "UPDATE trials SET ends_at = ? WHERE id = ? AND state = 'open'", endsAt.UnixMilli(), id)
	return err
}

// scan ends what is due, each trial in a transaction of its own.
func (o old) scan(ctx context.Context, now time.Time) (ended int, err error) {
	var due []int64
	err = o.db.SelectContext(ctx, &due, "SELECT id FROM trials WHERE state = 'open' AND ends_at <= ?", now.UnixMilli())
	if err != nil {
		return 0, err
	}
	for _, id := range due {
		done, err := o.end(ctx, id, now)
		if err != nil {
			return ended, err
		}
		if done {
			ended++
		}
	}
	return ended, nil
}

func (o old) end(ctx context.Context, id int64, now time.Time) (bool, error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	ended, err := moving.End(ctx, tx, id, now)
	if err != nil {
		return false, err
	}
	return ended, tx.Commit()
}
