package ledger

import (
	"context"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// wakeTimeout bounds what the caller of a change waits for the tasks that waited behind what it has changed.
const wakeTimeout = time.Second

// Waiting is what WakeBehind needs of the store.
type Waiting interface {
	Rows
	Transactions
	// LockFree locks those of the rows that nobody else has locked, and gives the database's time of that moment.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// Heads reads, without locks, the first pending task of the order key of each of these tasks, of which no two share a key;
	// those of except don't count. A nil q means a connection of the pool.
	Heads(ctx context.Context, q sqlx.QueryerContext, of, except []task.ID) ([]protocol.Head, error)
}

// WakeBehind gives a try at once to what waited behind tasks that a committed transaction has ended, or made later, and to ids,
// in a transaction of its own. For the ends of known tasks the caller has found the ids itself. What follows is the caller's;
// nil: nobody waited. It is a favor: a task that somebody has locked is left, and its next try comes by itself.
func WakeBehind(ctx context.Context, store Waiting, hooks *Hooks, ended *Tx, known map[task.ID]bool, ids []task.ID) (*Tx, error) {
	freed := ended.freed(known)
	if len(freed)+len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	if len(freed) > 0 {
		heads, err := store.Heads(ctx, nil, freed, nil)
		if err != nil {
			return nil, err
		}
		for _, head := range heads {
			if transition.WaitsBehind(head.Task) {
				ids = append(ids, head.ID)
			}
		}
		if len(ids) == 0 {
			return nil, nil
		}
	}
	return Transact(ctx, store, hooks, func(began *sqlx.Tx) (*Tx, error) {
		tx := NewTx(began, store, ended.actor)
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

// wakeBehind wakes what waited behind tasks that the transaction has ended, or made later.
func (l *Ledger) wakeBehind(ctx context.Context, tx *Tx) {
	woken, err := WakeBehind(ctx, l.store, l.hooks, tx, nil, nil)
	switch {
	case err != nil:
		l.history.logger.DebugContext(ctx, "successors not woken", slog.Any("err", err))
	case woken != nil:
		l.Follow(ctx, woken)
	}
}

// freed returns a task of each order key of which the transaction has ended a pending one, or made it later; known tasks don't
// count.
func (t *Tx) freed(known map[task.ID]bool) (ids []task.ID) {
	var keys map[string]bool
	for _, e := range t.list {
		for i := range e.changes {
			before, after := &e.changes[i].Before, &e.changes[i].After
			if after.OrderKey == "" || keys[after.OrderKey] || known[after.ID] || before.State != task.Pending ||
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
