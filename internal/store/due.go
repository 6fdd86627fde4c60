package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// LockDue locks the owner's pending rows that are due, or will be so soon, the first limit of them by (run_at, id), and waits for those that
// others have locked. It says whether the owner is blocked, and which of the rows' queues an operator has paused or limited. For an owner with nothing due it is
// one seek. The time is the moment just before the locks; zero if nothing is due. A row that has ended while it was waited for is not
// among them.
func (s *Store) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (protocol.Due, error) {
	due := s.dialect.Force("duetime_tasks_owner") + " WHERE owner = ? AND state = 0 AND run_at <= ? + " + s.dialect.now()
	found, err := s.lockDue(ctx, q, due, " ORDER BY run_at, id LIMIT ?", []any{owner, soon.Milliseconds()}, limit)
	if err != nil {
		return found, fmt.Errorf("lock due tasks of owner %s: %w", owner, err)
	}
	return found, nil
}

// LockDueInOrder is LockDue for the tasks of an order key, as rows hold it, whoever owns them, in their order.
func (s *Store) LockDueInOrder(ctx context.Context, q sqlx.ExtContext, orderKey string, soon time.Duration, limit int) (protocol.Due, error) {
	due := " JOIN duetime_orders" + s.dialect.Force("duetime_orders_key") + " ON duetime_orders.task_id = duetime_tasks.id" +
		" WHERE duetime_orders.order_key = ? AND state = 0 AND run_at <= ? + " + s.dialect.now()
	found, err := s.lockDue(ctx, q, due, " ORDER BY duetime_orders.due_at, duetime_orders.task_id LIMIT ?",
		[]any{orderKey, soon.Milliseconds()}, limit)
	if err != nil {
		return found, fmt.Errorf("lock due tasks of order key %q: %w", orderKey, err)
	}
	return found, nil
}

// lockDue locks the first limit of the due rows.
func (s *Store) lockDue(ctx context.Context, q sqlx.ExtContext, due, order string, args []any, limit int) (found protocol.Due, err error) {
	for {
		var some bool
		if err := s.queryPrimary(ctx, q, "EXISTS (SELECT 1 FROM duetime_tasks"+due+")", args, &some); err != nil || !some {
			return protocol.Due{}, err
		}
		var changed bool
		found, changed, err = s.lockFound(ctx, q, due+order, append(args, limit))
		if err != nil {
			return protocol.Due{}, err
		}
		// A task that has ended or moved while it was waited for may have follow-ups, which are found now.
		found.Rows = slices.DeleteFunc(found.Rows, isEnded)
		if !changed && len(found.Rows) > 0 {
			return found, nil
		}
	}
}

// LockToRunNow locks one row in any state, as LockDue does; there is none if the result has no rows.
func (s *Store) LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) (protocol.Due, error) {
	found, _, err := s.lockFound(ctx, q, s.dialect.Force("PRIMARY")+" WHERE id = ? LIMIT 1", []any{id[:]})
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
		", EXISTS (SELECT 1 FROM duetime_blocks AS b WHERE b.owner = duetime_tasks.owner)"+
		", "+s.dialect.heldQueue()+", "+wholeRow.list) +
		" FROM (SELECT * FROM (SELECT id AS found, version AS found_version FROM duetime_tasks" + found + ") AS page ORDER BY found LIMIT 1000) AS owned" +
		s.dialect.LeftFirst() + "duetime_tasks" + s.dialect.Force("PRIMARY") + " ON id = found" + s.dialect.ForUpdate()
	var ms int64
	var other anyTrue
	var blocked, held bool
	due.Blocked, due.Held = map[string]bool{}, map[string]bool{}
	scanRow := wholeRow.scanner(writable{}, &ms, &other, &blocked, &held)
	due.Rows, err = s.read(ctx, q, func(r *sqlx.Rows) (task.Task, error) {
		t, err := scanRow(r)
		due.Blocked[t.Owner], due.Held[t.Queue] = blocked, held
		return t, err
	}, text, args)
	due.Now = fromMs(ms)
	return due, bool(other), err
}
