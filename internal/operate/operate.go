// Package operate is what an operator changes beyond what any service may: dead tasks are retried or dismissed, tasks moved to
// another queue, queues paused and resumed, leaders asked to resign. It promises that each change commits together with the line of history that
// says who made it, or not at all. Of a pending task it changes nothing but the queue, and it writes nothing to the index: that
// is for the caller to do, or for the daemon.
package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Store is what an operator needs of MySQL.
type Store interface {
	Begin(ctx context.Context) (*sqlx.Tx, error)
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error)
	// SaveDead writes transitions out of rows that were dead; task.ErrKeyTaken if another task has the key of one.
	SaveDead(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error
	// LockFree leaves rows alone that others hold; the time is that of the statement.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// SaveQueue writes transitions of pending rows to another queue.
	SaveQueue(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error
	Record(ctx context.Context, q sqlx.ExtContext, events []task.Event) error
	Pause(ctx context.Context, q sqlx.ExtContext, queue string, now time.Time) (bool, error)
	Resume(ctx context.Context, q sqlx.ExtContext, queue string) (bool, error)
	Resign(ctx context.Context, q sqlx.ExtContext, name string, epoch int64, now time.Time) error
	Current(ctx context.Context, name string) (int64, error)
	Retryable(err error) bool
}

// Operator is one who changes things.
type Operator struct {
	store Store
	actor string
}

// New makes an operator; actor is the name in the history: user@host.
func New(store Store, actor string) *Operator { return &Operator{store: store, actor: actor} }

// ErrNeverLed answers the request to resign where nobody has ever led.
var ErrNeverLed = errors.New("nobody has ever led")

// Pause asks all workers to leave the queue's tasks alone; false if that was asked before.
func (o *Operator) Pause(ctx context.Context, queue string) (changed bool, err error) {
	err = o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		if changed, err = o.store.Pause(ctx, tx, queue, now); err != nil || !changed {
			return err
		}
		return o.note(ctx, tx, now, task.EventPaused, queue)
	})
	return changed, err
}

// Resume ends a pause; false if there was none.
func (o *Operator) Resume(ctx context.Context, queue string) (changed bool, err error) {
	err = o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		if changed, err = o.store.Resume(ctx, tx, queue); err != nil || !changed {
			return err
		}
		return o.note(ctx, tx, now, task.EventResumed, queue)
	})
	return changed, err
}

// Resign asks the leader of this name to end its term, and gives the epoch of that term.
func (o *Operator) Resign(ctx context.Context, name string) (epoch int64, err error) {
	if epoch, err = o.store.Current(ctx, name); err != nil {
		return 0, err
	}
	if epoch == 0 {
		return 0, fmt.Errorf("%s: %w", name, ErrNeverLed)
	}
	return epoch, o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		if err := o.store.Resign(ctx, tx, name, epoch, now); err != nil {
			return err
		}
		return o.note(ctx, tx, now, task.EventResign, fmt.Sprintf("%s, epoch %d", name, epoch))
	})
}

// Note writes a line about something that is not changed in the database.
func (o *Operator) Note(ctx context.Context, event, detail string) error {
	return o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error { return o.note(ctx, tx, now, event, detail) })
}

func (o *Operator) note(ctx context.Context, tx *sqlx.Tx, now time.Time, event, detail string) error {
	return o.store.Record(ctx, tx, []task.Event{{At: now, Name: event, Actor: o.actor, Detail: detail}})
}

const tries = 5 // of a transaction that ran into another

// inTx runs fn in a transaction, several times if it ran into another one, and commits.
func (o *Operator) inTx(ctx context.Context, fn func(tx *sqlx.Tx, now time.Time) error) error {
	for try := 1; ; try++ {
		err := o.once(ctx, fn)
		if err == nil || try == tries || ctx.Err() != nil || !o.store.Retryable(err) {
			return err
		}
	}
}

func (o *Operator) once(ctx context.Context, fn func(tx *sqlx.Tx, now time.Time) error) error {
	tx, err := o.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	now, err := o.store.Now(ctx, tx)
	if err != nil {
		return err
	}
	if err := fn(tx, now); err != nil {
		return err
	}
	return tx.Commit()
}
