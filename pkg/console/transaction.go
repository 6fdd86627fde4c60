package console

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
)

// inTx runs fn in a transaction, writes its lines of the history with it, and commits: see ledger.Ledger.Run. It waits for the puts of
// its tasks, since people look at once.
func (c *Console) inTx(ctx context.Context, fn func(tx *sqlx.Tx, changes *ledger.Tx) error) error {
	l := c.inside().Ledger()
	err := l.Run(ctx, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx := ledger.NewTx(began, c.store, c.cfg.Actor)
		if _, err := tx.Now(ctx); err != nil {
			return tx, err
		}
		if err := fn(began, tx); err != nil {
			return tx, err
		}
		return tx, tx.Record(ctx)
	})
	l.Writer().WaitForEarlierPuts(ctx)
	return err
}

// record writes the lines of the history with the changes, instead of after the commit.
func record(ctx context.Context, tx *schedule.Tx) error {
	return schedule.Inside(inside.Key{}, tx).Ledger().Record(ctx)
}

func (c *Console) inside() inside.Client { return schedule.InsideClient(inside.Key{}, c.client) }

// event is one that belongs to no task, at the moment of the transaction.
func event(changes *ledger.Tx, name, detail string) protocol.Event {
	return protocol.Event{At: changes.Moment(), Name: name, Detail: detail}
}
