package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// LockDue locks the owner's pending rows that are due, or will be so soon, the first limit of them by (run_at, id), and waits for those that
// others have locked. It says whether the owner is blocked, and which of the rows' queues an operator has paused or limited. For an owner with nothing due it is
// one seek. The time is the moment just before the locks; zero if nothing is due. A row that has ended while it was waited for is not
// among them.
func (s *Store) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (
	found []task.Task, blocked bool, held map[string]bool, now time.Time, err error,
) {
	due := s.dialect.Force("duetime_tasks_owner") + " WHERE owner = ? AND state = 0 AND run_at <= ? + " + s.dialect.now()
	args := []any{owner, soon.Milliseconds()}
	for {
		var some bool
		if err := s.queryPrimary(ctx, q, "EXISTS (SELECT 1 FROM duetime_tasks"+due+")", args, &some); err != nil || !some {
			return nil, false, nil, now, err
		}
		var changed bool
		found, blocked, held, now, changed, err = s.lockFound(ctx, q, due+" ORDER BY run_at, id LIMIT ?", append(args, limit))
		if err != nil {
			return nil, false, nil, now, fmt.Errorf("lock due tasks of owner %s: %w", owner, err)
		}
		// A task that has ended or moved while it was waited for may have follow-ups, which are found now.
		found = slices.DeleteFunc(found, func(t task.Task) bool { return t.State != task.Pending })
		if !changed && len(found) > 0 {
			return found, blocked, held, now, nil
		}
	}
}

// LockToRunNow locks one row in any state, as LockDue does; there is none if found is empty.
func (s *Store) LockToRunNow(ctx context.Context, q sqlx.ExtContext, id task.ID) (
	found []task.Task, blocked bool, held map[string]bool, now time.Time, err error,
) {
	found, blocked, held, now, _, err = s.lockFound(ctx, q, s.dialect.Force("PRIMARY")+" WHERE id = ? LIMIT 1", []any{id[:]})
	if err == nil && len(found) == 0 {
		err = s.checkPrimary(ctx, q)
	}
	if err != nil {
		err = fmt.Errorf("lock task %s: %w", id, err)
	}
	return found, blocked, held, now, err
}

// lockFound locks the rows that were found without locks, by id, as LockOwner does. Changed says that one of them has another version
// since it was found.
func (s *Store) lockFound(ctx context.Context, q sqlx.ExtContext, found string, args []any) (
	rows []task.Task, blocked bool, held map[string]bool, now time.Time, changed bool, err error,
) {
	text := s.dialect.stateThen(s.dialect.now()+", version <> found_version"+
		", EXISTS (SELECT 1 FROM duetime_blocks AS b WHERE b.owner = duetime_tasks.owner)"+
		", EXISTS (SELECT 1 FROM duetime_requests AS r WHERE r.name = "+s.dialect.pauseOf("duetime_tasks.queue")+")"+
		" OR EXISTS (SELECT 1 FROM duetime_limits AS l WHERE l.queue = duetime_tasks.queue AND (l.rate <> '' OR l.concurrency > 0)), "+
		wholeRow.list) +
		" FROM (SELECT * FROM (SELECT id AS found, version AS found_version FROM duetime_tasks" + found + ") AS page ORDER BY found LIMIT 1000) AS owned" +
		s.dialect.LeftFirst() + "duetime_tasks" + s.dialect.Force("PRIMARY") + " ON id = found" + s.dialect.ForUpdate()
	var ms int64
	var other anyTrue
	var heldHere bool
	held = map[string]bool{}
	scanRow := wholeRow.scanner(writable{}, &ms, &other, &blocked, &heldHere)
	rows, err = s.read(ctx, q, func(r *sqlx.Rows) (task.Task, error) {
		t, err := scanRow(r)
		held[t.Queue] = heldHere
		return t, err
	}, text, args)
	return rows, blocked, held, fromMs(ms), bool(other), err
}
