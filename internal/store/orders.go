package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// A pending task with an order key has a row in duetime_orders, whose index gives the tasks of a key in their order. It is written by the
// transaction that writes the task's row, which is locked: so two transactions never write one of them at once. Tasks without an order key
// cost no statement. A row that a program of another language has left behind stops no key, since Heads reads the task's row too.

// insertOrders adds the rows of new tasks that have an order key.
func (s *Store) insertOrders(ctx context.Context, q sqlx.ExtContext, made []task.Task) error {
	var args []any
	for i := range made {
		if made[i].OrderKey != "" {
			args = appendOrder(args, &made[i])
		}
	}
	return s.putOrders(ctx, q, args)
}

func appendOrder(args []any, t *task.Task) []any {
	return append(args, t.ID[:], t.OrderKey, t.DueAt.UnixMilli())
}

// followOrders has the rows follow transitions.
func (s *Store) followOrders(ctx context.Context, q sqlx.ExtContext, changes []*transition.Change) error {
	var args []any
	var ended []task.ID
	for _, c := range changes {
		before, after := &c.Before, &c.After
		switch {
		case after.OrderKey == "":
		case after.State != task.Pending && before.State == task.Pending:
			ended = append(ended, after.ID)
		case after.State == task.Pending && (before.State != task.Pending || !before.DueAt.Equal(after.DueAt)):
			args = appendOrder(args, after)
		}
	}
	if err := s.putOrders(ctx, q, args); err != nil {
		return err
	}
	return s.dropOrders(ctx, q, ended, "")
}

// putOrders inserts rows, or gives those that are there another due time.
func (s *Store) putOrders(ctx context.Context, q sqlx.ExtContext, args []any) error {
	if len(args) == 0 {
		return nil
	}
	n := len(args) / 3
	_, err := q.ExecContext(ctx, "INSERT INTO duetime_orders (task_id, order_key, due_at) VALUES "+
		strings.Repeat(",(?,?,?)", n)[1:]+s.dialect.overwrite("task_id", "due_at"), args...)
	if err != nil {
		return fmt.Errorf("put %d tasks in order: %w", n, err)
	}
	return nil
}

// dropOrders removes the rows of tasks that have ended, and that meet a condition, given with its AND.
func (s *Store) dropOrders(ctx context.Context, q sqlx.ExtContext, ids []task.ID, condition string) error {
	if len(ids) == 0 {
		return nil
	}
	text := s.dialect.deletePinned("duetime_orders") + " WHERE task_id IN (" + marks(len(ids)) + ")" + condition
	if _, err := q.ExecContext(ctx, text, idArgs(ids)...); err != nil {
		return fmt.Errorf("take %d tasks out of order: %w", len(ids), err)
	}
	return nil
}

// ofNobody is the condition that a row's task has no row.
func (d Dialect) ofNobody() string {
	return " AND NOT EXISTS (SELECT 1 FROM duetime_tasks" + d.Force("PRIMARY") + " WHERE id = task_id)"
}

// dropLeftOrders removes the rows of tasks that a program of another language has ended, once the tasks' rows are deleted.
func (s *Store) dropLeftOrders(ctx context.Context, deleted []task.ID) error {
	var id task.ID
	var left []task.ID
	err := forEach(ctx, s.db, "SELECT task_id FROM duetime_orders"+s.dialect.Force("PRIMARY")+" WHERE task_id IN ("+marks(len(deleted))+
		")"+s.dialect.ofNobody(), idArgs(deleted), []any{idBytes{&id}}, func() { left = append(left, id) })
	if err != nil {
		return fmt.Errorf("read what is left in order of %d deleted tasks: %w", len(deleted), err)
	}
	return s.dropOrdersOfNobody(ctx, left)
}

// dropOrdersOfNobody drops none of a task that was scheduled again by its id since its row was missing.
func (s *Store) dropOrdersOfNobody(ctx context.Context, ids []task.ID) error {
	return s.dropOrders(ctx, s.db, ids, s.dialect.ofNobody())
}

// Heads reads the first pending task of the order key of each of these tasks, which must have keys that differ; those of except don't
// count. A key without another pending task has none. It reads what is committed, or written by q's transaction, and takes no lock and
// waits for none: a task that somebody runs at this moment is pending until his COMMIT.
func (s *Store) Heads(ctx context.Context, q sqlx.QueryerContext, of, except []task.ID) ([]protocol.Head, error) {
	var heads []protocol.Head
	var h protocol.Head
	scanRow := wholeRow.scanner(&h.Held)
	scan := func(r *sqlx.Rows) (t task.Task, err error) {
		if h.Task, err = scanRow(r); err == nil {
			heads = append(heads, h)
		}
		return h.Task, err
	}
	text, args := s.dialect.headsSQL(of, except)
	if _, err := s.read(ctx, q, scan, text, args); err != nil {
		return nil, fmt.Errorf("read the heads of %d order keys: %w", len(of), err)
	}
	return heads, nil
}

// headsSQL reads one entry of the index for each key, and those of except before it.
func (d Dialect) headsSQL(of, except []task.ID) (string, []any) {
	args, others := []any{}, ""
	if len(except) > 0 {
		others = " AND o.task_id NOT IN (" + marks(len(except)) + ")"
		args = append(args, idArgs(except)...)
	}
	return "SELECT " + d.heldRow() + ", " + wholeRow.list + " FROM (SELECT (SELECT o.task_id FROM duetime_orders AS o" +
		d.Force("duetime_orders_key") + d.LeftFirst() + "duetime_tasks AS w" + d.Force("PRIMARY") + " ON w.id = o.task_id" +
		" WHERE o.order_key = m.order_key AND w.state = 0" + others + " ORDER BY o.order_key, o.due_at, o.task_id LIMIT 1) AS head" +
		" FROM duetime_tasks AS m" + d.Force("PRIMARY") + " WHERE m.id IN (" + marks(len(of)) + ")) AS heads" +
		d.LeftFirst() + "duetime_tasks" + d.Force("PRIMARY") + " ON id = head", append(args, idArgs(of)...)
}

// heldRow is whether a row of duetime_tasks is paused, or an operator has limited its queue.
func (d Dialect) heldRow() string {
	return "(EXISTS (SELECT 1 FROM duetime_requests AS r WHERE r.name = " + d.pauseOf("duetime_tasks.queue") + " AND " + d.standing("r.") + ")" +
		" OR " + d.pausedRow() +
		" OR EXISTS (SELECT 1 FROM duetime_limits AS l WHERE l.queue = duetime_tasks.queue AND (l.rate <> '' OR l.concurrency > 0)))"
}

// Behind counts the tasks that have waited for an earlier one of their order key for longer than this. It reads the first limit pending
// tasks by run time.
func (s *Store) Behind(ctx context.Context, longer time.Duration, limit int) (int64, error) {
	floor, err := s.floorMs(ctx)
	if err != nil {
		return 0, err
	}
	return s.count(ctx, "tasks behind others", "SELECT COUNT(*) FROM (SELECT due_at, last_error FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+
		" WHERE state = 0 AND run_at >= ? ORDER BY run_at, id LIMIT ?) AS first WHERE due_at < "+s.dialect.now()+
		" - ? AND (last_error LIKE ? OR last_error LIKE ?)",
		floor, limit, longer.Milliseconds(), transition.Behind+"%", transition.BehindTried+"%")
}
