package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// verb is what is done with dead tasks.
type verb struct {
	event string
	next  func(task.Task, time.Time) (task.Task, error)
}

var (
	retry   = verb{task.EventRetried, task.Task.Retry}
	discard = verb{task.EventDiscarded, task.Task.Dismiss}
)

// Outcome is what came of a change of several tasks.
type Outcome struct {
	Changed []task.Task // as they stand now
	Taken   []task.ID   // left dead: another task has their key
	Passed  int         // no longer dead, or gone
}

// Retry makes those of the tasks pending again that are dead: due now, with all their attempts. They go in one
// transaction, or each in its own where one of them can't have its key.
func (o *Operator) Retry(ctx context.Context, ids []task.ID) (Outcome, error) {
	out, err := o.several(ctx, ids, retry)
	if !errors.Is(err, task.ErrKeyTaken) {
		return out, err
	}
	var all Outcome
	for _, id := range ids {
		out, err := o.several(ctx, []task.ID{id}, retry)
		if errors.Is(err, task.ErrKeyTaken) {
			all.Taken = append(all.Taken, id)
			continue
		}
		if err != nil {
			return all, err
		}
		all.Changed = append(all.Changed, out.Changed...)
		all.Passed += out.Passed
	}
	return all, nil
}

// Discard takes those of the tasks off the dead list that are on it: they end as cancelled, kept until their retention.
func (o *Operator) Discard(ctx context.Context, ids []task.ID) (Outcome, error) {
	return o.several(ctx, ids, discard)
}

func (o *Operator) several(ctx context.Context, ids []task.ID, v verb) (Outcome, error) {
	var out Outcome
	err := o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		rows, err := o.store.Lock(ctx, tx, ids)
		if err != nil {
			return err
		}
		out = Outcome{}
		for _, row := range rows {
			if changed, err := v.next(row, now); err == nil {
				out.Changed = append(out.Changed, changed)
			}
		}
		out.Passed = len(ids) - len(out.Changed)
		return o.write(ctx, tx, v, rows, out.Changed)
	})
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// RetryOne is Retry for one task, which says why it could not: task.ErrNotFound, task.ErrNotDead, one that is
// task.ErrFinished, or task.ErrKeyTaken.
func (o *Operator) RetryOne(ctx context.Context, id task.ID) (task.Task, error) {
	var changed task.Task
	err := o.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		rows, err := o.store.Lock(ctx, tx, []task.ID{id})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return task.ErrNotFound
		}
		if changed, err = rows[0].Retry(now); err != nil {
			return err
		}
		return o.write(ctx, tx, retry, rows, []task.Task{changed})
	})
	if err != nil {
		return task.Task{}, fmt.Errorf("retry %s: %w", id, err)
	}
	return changed, nil
}

// write writes the changed rows and their history.
func (o *Operator) write(ctx context.Context, tx *sqlx.Tx, v verb, before, changed []task.Task) error {
	if len(changed) == 0 {
		return nil
	}
	attempts := make(map[task.ID]int, len(before))
	for _, row := range before {
		attempts[row.ID] = row.Attempt
	}
	events := make([]task.Event, len(changed))
	for i, row := range changed {
		events[i] = task.Event{
			At: row.UpdatedAt, Task: row.ID, Name: v.event, Actor: o.actor,
			Detail: fmt.Sprintf("was dead after %d attempts: %s", attempts[row.ID], row.LastError),
		}
	}
	if err := o.store.SaveDead(ctx, tx, changed); err != nil {
		return err
	}
	return o.store.Record(ctx, tx, events)
}
