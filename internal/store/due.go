package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// maxPutOff is how long a due task is put off without an attempt, at most: for want of a worker of its kind, of its endpoint,
// or of the end of an earlier task of its order key, unless that waits longer; by a pause, by the rate of its
// owner, or by its handler's Snooze, it may be longer.
const maxPutOff = 10 * time.Minute

// untried is the condition on a due row with a later run time that it was put off, and has not failed. Its arguments are
// untriedMarks.
const untried = "(attempt = 0 OR last_error LIKE ? OR last_error LIKE ? OR last_error LIKE ? OR last_error LIKE ?)"

var untriedMarks = []any{transition.Unknown + "%", transition.BehindTried + "%", transition.PausedTried + "%", transition.LimitedTried + "%"}

// maxLooked is how many of an owner's or an order key's next rows are looked at for those that were put off.
const maxLooked = 100

// LockDue locks the owner's pending rows that are due, or will be so soon, the first limit of them by (run_at, id), and waits
// for those that others have locked. It says whether the owner is blocked, which of the rows' queues an operator has paused or
// limited, and how many due rows were put off. For an owner with nothing due it is one seek. The time is the moment just before
// the locks; zero if nothing is due. A row that has ended while it was waited for is not among them.
func (s *Store) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (protocol.Due, error) {
	of, now, ms := s.dialect.Force("duetime_tasks_owner")+" WHERE owner = ? AND state = 0 AND run_at <= ? + ", s.dialect.now(), soon.Milliseconds()
	look := "COALESCE(MAX(run_at <= ? + " + now + "), 0), COALESCE(SUM(run_at > ? + " + now + " AND due_at <= ? + " + now + " AND " + untried +
		"), 0) FROM (SELECT run_at, due_at, attempt, last_error FROM duetime_tasks" + of + now + " ORDER BY run_at, id LIMIT ?) AS page"
	args := append([]any{ms, ms, ms}, untriedMarks...)
	args = append(args, owner, ms+maxPutOff.Milliseconds(), maxLooked)
	found, err := s.lockDue(ctx, q, look, args, of+now+" ORDER BY run_at, id LIMIT ?", []any{owner, ms, limit})
	if err != nil {
		return found, fmt.Errorf("lock due tasks of owner %s: %w", owner, err)
	}
	return found, nil
}

// LockDueInOrder is LockDue for the tasks of an order key, as rows hold it, whoever owns them, in their order.
func (s *Store) LockDueInOrder(ctx context.Context, q sqlx.ExtContext, orderKey string, soon time.Duration, limit int) (protocol.Due, error) {
	now, ms := s.dialect.now(), soon.Milliseconds()
	of := " JOIN duetime_orders" + s.dialect.Force("duetime_orders_key") + " ON duetime_orders.task_id = duetime_tasks.id" +
		" WHERE duetime_orders.order_key = ? AND state = 0 AND "
	due, inOrder := of+"run_at <= ? + "+now, " ORDER BY duetime_orders.due_at, duetime_orders.task_id LIMIT ?"
	look := "EXISTS (SELECT 1 FROM duetime_tasks" + due + "), (SELECT COUNT(*) FROM (SELECT run_at, attempt, last_error FROM duetime_tasks" +
		of + "duetime_orders.due_at <= ? + " + now + inOrder + ") AS page WHERE run_at > ? + " + now + " AND " + untried + ")"
	args := append([]any{orderKey, ms, orderKey, ms, maxLooked, ms}, untriedMarks...)
	found, err := s.lockDue(ctx, q, look, args, due+inOrder, []any{orderKey, ms, limit})
	if err != nil {
		return found, fmt.Errorf("lock due tasks of order key %q: %w", orderKey, err)
	}
	return found, nil
}

// lockDue locks the due rows, if the look says that there are some.
func (s *Store) lockDue(ctx context.Context, q sqlx.ExtContext, look string, lookArgs []any, due string, args []any) (found protocol.Due, err error) {
	for {
		var some bool
		var putOff int
		if err := s.queryPrimary(ctx, q, look, lookArgs, &some, &putOff); err != nil || !some {
			return protocol.Due{PutOff: putOff}, err
		}
		var changed bool
		found, changed, err = s.lockFound(ctx, q, due, args)
		if err != nil {
			return protocol.Due{}, err
		}
		// A task that has ended or moved while it was waited for may have follow-ups, which are found now.
		found.PutOff, found.Rows = putOff, slices.DeleteFunc(found.Rows, isEnded)
		if !changed && len(found.Rows) > 0 {
			return found, nil
		}
	}
}

// LockToRunNow locks one row in any state, as LockDue does; there is none if the result has no rows.
func (s *Store) LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) (protocol.Due, error) {
	found, _, err := s.lockFound(ctx, q, s.dialect.Force("PRIMARY")+" WHERE id = ? LIMIT 1", []any{id[:]})
	if err == nil && len(found.Rows) == 0 {
		found.Rows, err = s.endedByID(ctx, q, []task.ID{id})
	}
	if err == nil && len(found.Rows) == 0 {
		err = s.checkPrimary(ctx, q)
	}
	if err != nil {
		err = fmt.Errorf("lock task %s: %w", id, err)
	}
	return found, err
}

// lockFound locks the rows that were found without locks, by id, as LockOwner does. Changed says that one of them has another version
// since it was found.
func (s *Store) lockFound(ctx context.Context, q sqlx.ExtContext, found string, args []any) (due protocol.Due, changed bool, err error) {
	text := s.dialect.stateThen(s.dialect.now()+", version <> found_version"+
		", "+barOf+", "+s.dialect.heldRow()+", "+wholeRow.list) +
		" FROM (SELECT * FROM (SELECT id AS found, version AS found_version FROM duetime_tasks" + found + ") AS page ORDER BY found LIMIT 1000) AS owned" +
		s.dialect.LeftFirst() + "duetime_tasks" + s.dialect.Force("PRIMARY") + " ON id = found" + s.dialect.ForUpdate()
	var ms int64
	var other anyTrue
	var bar protocol.Bar
	var held bool
	due.Bars, due.Held = map[task.ID]protocol.Bar{}, map[task.ID]bool{}
	scanRow := wholeRow.scanner(writable{}, &ms, &other, whole[protocol.Bar]{&bar}, &held)
	due.Rows, err = s.read(ctx, q, func(r *sqlx.Rows) (task.Task, error) {
		t, err := scanRow(r)
		if due.Held[t.ID] = held; bar != protocol.NoBar {
			due.Bars[t.ID] = bar
		}
		return t, err
	}, text, args)
	due.Now = fromMs(ms)
	return due, bool(other), err
}
