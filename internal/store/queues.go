package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// A queue that an operator has added, beside those of the configuration, is a request. Whoever makes a task, a recurrence or anything
// else that leads to tasks of the queue holds the request's row by a shared lock until the COMMIT. A retirement locks the row for
// itself, if nobody holds it: waiting for the lock, it would keep all others waiting who come later. These find no row.

// Queues returns the queues that operators have added, sorted.
func (s *Store) Queues(ctx context.Context) (queues []string, err error) {
	var name string
	err = forEach(ctx, s.db, "SELECT name FROM duetime_requests WHERE name LIKE ?", []any{queueRequest + "%"}, []any{&name}, func() {
		queues = append(queues, strings.TrimPrefix(name, queueRequest))
	})
	if err != nil {
		return nil, fmt.Errorf("read the queues that were added: %w", err)
	}
	slices.Sort(queues)
	return queues, nil
}

// HoldQueue keeps an added queue until the transaction ends; false if there is none of the name.
func (s *Store) HoldQueue(ctx context.Context, q sqlx.QueryerContext, queue string) (found bool, err error) {
	return s.findQueue(ctx, q, queue, s.dialect.forShare())
}

// LockQueue keeps all others out of an added queue until the transaction ends. held says that some transaction holds it, and then it
// is not locked; found is false if there is none of the name.
func (s *Store) LockQueue(ctx context.Context, q sqlx.QueryerContext, queue string) (found, held bool, err error) {
	found, err = s.findQueue(ctx, q, queue, s.dialect.forUpdateNow())
	if lockIsTaken(err) {
		return true, true, nil
	}
	return found, false, err
}

func (s *Store) findQueue(ctx context.Context, q sqlx.QueryerContext, queue, lock string) (found bool, err error) {
	err = forEach(ctx, q, "SELECT made_at FROM duetime_requests WHERE name = ?"+lock, []any{queueRequest + queue}, []any{new(int64)}, func() { found = true })
	if err != nil {
		return false, fmt.Errorf("look for queue %s: %w", queue, err)
	}
	return found, nil
}

// AddQueue adds a queue; false if it was added before.
func (s *Store) AddQueue(ctx context.Context, q sqlx.ExtContext, queue string, now time.Time) (bool, error) {
	r, err := q.ExecContext(ctx, "INSERT INTO duetime_requests (name, epoch, made_at) VALUES (?, 0, ?)"+s.dialect.ignoreTaken("name"),
		queueRequest+queue, now.UnixMilli())
	if err != nil {
		return false, fmt.Errorf("add queue %s: %w", queue, err)
	}
	return s.allNew(r, 1)
}

// ForgetQueue deletes an added queue, which its caller has locked, with its limit, its pauses and its handovers.
func (s *Store) ForgetQueue(ctx context.Context, q sqlx.ExtContext, queue string) error {
	pauses, err := s.pauses(ctx, q, "SELECT "+pauseColumns+" FROM duetime_pauses WHERE queue = ?", queue)
	if err == nil {
		err = s.dropPauses(ctx, q, pauses)
	}
	for _, forget := range []struct{ text, name string }{
		{s.dialect.deletePinned("duetime_limits") + " WHERE queue = ?", queue},
		{s.dialect.deletePinned("duetime_handovers") + " WHERE queue = ?", queue},
		{s.dialect.deletePinned("duetime_requests") + " WHERE name = ?", pauseRequest + queue},
		{s.dialect.deletePinned("duetime_requests") + " WHERE name = ?", queueRequest + queue},
	} {
		if err == nil {
			_, err = q.ExecContext(ctx, forget.text, forget.name)
		}
	}
	if err != nil {
		return fmt.Errorf("forget queue %s: %w", queue, err)
	}
	return nil
}

// QueueUses counts what uses a queue. It reads what makes tasks before the tasks: one that was made in between is counted. It looks at
// every pending and dead row: seconds for tens of millions.
func (s *Store) QueueUses(ctx context.Context, q sqlx.QueryerContext, queue string) (uses protocol.QueueUses, err error) {
	if uses.Processes, err = s.queueProcesses(ctx, q, queue); err != nil {
		return uses, err
	}
	if uses.Groups, err = s.queueFollowers(ctx, q, queue); err != nil {
		return uses, err
	}
	for _, use := range []struct {
		n           *int
		table, what string
	}{
		{&uses.Operations, "duetime_operations", "state <= 1 AND to_queue = ?"},
		{&uses.Recurrences, "duetime_recurrences", "state <= 1 AND queue = ?"},
	} {
		if err := forEach(ctx, q, "SELECT COUNT(*) FROM "+use.table+" WHERE "+use.what, []any{queue}, []any{use.n}, func() {}); err != nil {
			return uses, fmt.Errorf("count what uses queue %s: %w", queue, err)
		}
	}
	var state int8
	var n int64
	err = forEach(ctx, q, SelectUntil(ctx)+"state, COUNT(*) FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+
		" WHERE state IN (0, 3) AND queue = ? GROUP BY state", []any{queue}, []any{&state, &n}, func() {
		if task.State(state) == task.Pending {
			uses.Pending = n
		} else {
			uses.Dead = n
		}
	})
	if err != nil {
		return uses, fmt.Errorf("count the tasks of queue %s: %w", queue, err)
	}
	return uses, nil
}

func (s *Store) queueProcesses(ctx context.Context, q sqlx.QueryerContext, queue string) (n int, err error) {
	all, err := s.listProcesses(ctx, q)
	for _, p := range all {
		if !p.Silent && slices.Contains(p.Detail.Queues, queue) {
			n++
		}
	}
	return n, err
}

// queueFollowers counts the open groups whose followers are of the queue.
func (s *Store) queueFollowers(ctx context.Context, q sqlx.QueryerContext, queue string) (n int, err error) {
	var g group.Row
	err = forEach(ctx, q, "SELECT follower FROM duetime_groups WHERE ended_at IS NULL AND follower LIKE ?", []any{`%"` + queue + `"%`}, []any{&g.Follower}, func() {
		if f, err := g.Then(); err == nil && f.Queue == queue {
			n++
		}
	})
	if err != nil {
		return 0, fmt.Errorf("count the groups whose followers are of queue %s: %w", queue, err)
	}
	return n, nil
}
