package ledger

import (
	"context"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// wakeTimeout bounds what the caller of a change waits for the tasks that waited behind what it has changed.
const wakeTimeout = time.Second

// Waiting is what Wake needs of the store.
type Waiting interface {
	Rows
	Transactions
	// LockFree locks those of the rows that nobody else has locked, and gives the database's time of that moment.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
}

// Wake gives a try at once to those of the tasks that wait behind others, in a transaction of its own. Call it for the first tasks of order
// keys after another one has ended. What follows is the caller's. A task that somebody has locked is left: its next try comes by itself.
func Wake(ctx context.Context, store Waiting, hooks *Hooks, actor string, ids []task.ID) (*Tx, error) {
	return Transact(ctx, store, hooks, func(began *sqlx.Tx) (*Tx, error) {
		tx := NewTx(began, store, actor)
		rows, now, err := store.LockFree(ctx, began, ids)
		if err != nil {
			return tx, err
		}
		return tx, tx.Wake(ctx, rows, now)
	})
}

// Wake gives a try at once to those of the locked rows that wait behind others. Nothing else of them changes, so no line tells of it.
func (t *Tx) Wake(ctx context.Context, locked []task.Task, now time.Time) error {
	var woken []transition.Change
	for _, row := range locked {
		if next := transition.Follow(row, now); next.Version != row.Version {
			woken = append(woken, transition.Change{Before: row, After: next})
		}
	}
	if len(woken) == 0 {
		return nil
	}
	return t.Save(ctx, woken, nil)
}

// wakeBehind wakes what waited behind tasks that the transaction has ended, or made later. It is a favor: the next tries come by themselves.
func (l *Ledger) wakeBehind(ctx context.Context, tx *Tx) {
	freed := tx.freed()
	if len(freed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	heads, err := l.store.Heads(ctx, nil, freed, nil)
	var ids []task.ID
	for _, head := range heads {
		if transition.WaitsBehind(head.Task) {
			ids = append(ids, head.ID)
		}
	}
	if err == nil && len(ids) > 0 {
		var woken *Tx
		if woken, err = Wake(ctx, l.store, l.hooks, tx.actor, ids); err == nil {
			l.Follow(ctx, woken)
		}
	}
	if err != nil {
		l.history.logger.DebugContext(ctx, "successors not woken", slog.Int("n", len(freed)), slog.Any("err", err))
	}
}

// freed returns a task of each order key of which the transaction has ended a pending one, or made it later.
func (t *Tx) freed() (ids []task.ID) {
	var keys map[string]bool
	for _, e := range t.list {
		for i := range e.changes {
			before, after := &e.changes[i].Before, &e.changes[i].After
			if after.OrderKey == "" || keys[after.OrderKey] || before.State != task.Pending ||
				after.State == task.Pending && !after.DueAt.After(before.DueAt) {
				continue
			}
			if keys == nil {
				keys = map[string]bool{}
			}
			keys[after.OrderKey] = true
			ids = append(ids, after.ID)
		}
	}
	return ids
}
