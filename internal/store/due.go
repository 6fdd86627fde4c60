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
// others have locked. It says whether the owner is blocked, and which of the rows' queues are paused. For an owner with nothing due it is
// one seek. The time is the moment just before the locks; zero if nothing is due. A row that has ended while it was waited for is not
// among them.
func (s *Store) LockDue(ctx context.Context, q sqlx.ExtContext, owner string, soon time.Duration, limit int) (
	found []task.Task, blocked bool, paused map[string]bool, now time.Time, err error,
) {
	due := " FROM duetime_tasks" + s.dialect.Force("duetime_tasks_owner") + " WHERE owner = ? AND state = 0 AND run_at <= ? + " + s.dialect.now()
	// Found without locks and then locked by id, as in LockOwner.
	text := s.dialect.stateThen(s.dialect.now()+", version <> found_version"+
		", EXISTS (SELECT 1 FROM duetime_blocks AS b WHERE b.owner = duetime_tasks.owner)"+
		", EXISTS (SELECT 1 FROM duetime_requests AS r WHERE r.name = "+s.dialect.pauseOf("duetime_tasks.queue")+"), "+wholeRow.list) +
		" FROM (SELECT * FROM (SELECT id AS found, version AS found_version" + due + " ORDER BY run_at, id LIMIT ?) AS page ORDER BY found LIMIT ?) AS owned" +
		s.dialect.LeftFirst() + "duetime_tasks" + s.dialect.Force("PRIMARY") + " ON id = found" + s.dialect.ForUpdate()
	for {
		var some bool
		if err := s.queryPrimary(ctx, q, "EXISTS (SELECT 1"+due+")", []any{owner, soon.Milliseconds()}, &some); err != nil || !some {
			return nil, false, nil, now, err
		}
		var ms int64
		var changed anyTrue
		var pausedHere bool
		paused = map[string]bool{}
		scanRow := wholeRow.scanner(writable{}, &ms, &changed, &blocked, &pausedHere)
		rows, err := s.read(ctx, q, func(r *sqlx.Rows) (task.Task, error) {
			t, err := scanRow(r)
			paused[t.Queue] = pausedHere
			return t, err
		}, text, []any{owner, soon.Milliseconds(), limit, limit})
		if err != nil {
			return nil, false, nil, now, fmt.Errorf("lock due tasks of owner %s: %w", owner, err)
		}
		found = slices.DeleteFunc(rows, func(t task.Task) bool { return t.State != task.Pending })
		// A task that has ended or moved while it was waited for may have follow-ups, which are found now.
		if !changed && len(found) > 0 {
			return found, blocked, paused, fromMs(ms), nil
		}
	}
}
