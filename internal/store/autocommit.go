package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// A change of one task needs no BEGIN and no COMMIT: an autocommit statement is a transaction. But its errors are less
// clear. An error of COMMIT tells whether the COMMIT was sent. If a context ends or a connection breaks during an
// autocommit statement, the statement may have taken effect: Unclear reports such an error.

// created_at comes first in an autocommit INSERT, because the other times are computed from it. It is the statement's
// moment, which comes back as LAST_INSERT_ID. The due time is a fixed moment, or a number of milliseconds after
// created_at, but never before created_at. The columns of keys and of
// the group have their defaults: tasks with one are not inserted here.
var (
	computedTimes  = []string{"created_at", "updated_at", "due_at", "run_at"}
	autocommitRow  = having(inserted, append(computedTimes, "dedup_key", "order_key", "group_name")...)
	autocommitInto = "INSERT INTO duetime_tasks (" + strings.Join(computedTimes, ", ") + ", " + names(autocommitRow) + ") VALUES "
	dueAtMarks     = autocommitMarks("created_at", "?")
	dueInMarks     = autocommitMarks("created_at", "created_at + ?")
)

func autocommitMarks(updated, due string) string {
	return ",(LAST_INSERT_ID(" + MySQL.now() + "), " + updated + ", GREATEST(created_at, " + due + "), due_at, " + marks(len(autocommitRow)) + ")"
}

// unlessBlocked is the time of the first row's last change. If one of the owners is blocked, the sum is out of range: the server
// then refuses the whole statement, whatever its sql_mode. Without owners it is if anybody is blocked, which costs the server less. The
// read of an INSERT waits for blocks that are not committed yet, and in a small table also for those of other owners: a transaction
// inserts its block last.
func unlessBlocked(owners int) string {
	text := "created_at + 9223372036854775807 * EXISTS (SELECT 1 FROM duetime_blocks" + MySQL.Force("PRIMARY")
	if owners > 0 {
		text += " WHERE owner IN (" + marks(owners) + ")"
	}
	return text + ")"
}

// blocksRemembered is how long a process names its owners after a statement met a block. Many deployments have none: a process then
// asks only once in freeRemembered, because to ask costs the server as much as a row, and AwaitBlocks waits until no process trusts
// its last answer.
const (
	blocksRemembered = time.Minute
	freeRemembered   = 250 * time.Millisecond
	awaitBlocks      = freeRemembered * 6 / 5 // the clocks of hosts don't go alike
)

// AwaitBlocks waits until no process inserts without asking for a block that was committed before the call, or until ctx ends.
func (s *Store) AwaitBlocks(ctx context.Context) {
	if s.dialect == SQLite {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(awaitBlocks):
	}
}

// InsertAutocommit writes the rows of new tasks in one statement, which is a transaction of its own, and returns the
// rows. It returns nil if nothing was written: an id was taken, an owner is blocked, or a task has a key or an order key, or this is SQLite,
// which has no round trips to save.
func (s *Store) InsertAutocommit(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	if s.dialect == SQLite {
		return nil, nil
	}
	// Without an answer about the layout the statement is sent all the same: its own answer tells callers what to do.
	layout, err := s.RecentLayout(ctx)
	if err == nil {
		err = s.checkNamespace(layout)
	}
	if err != nil {
		return nil, err
	}
	tasks, due := make([]task.Task, len(specs)), make([]int64, len(specs))
	var text strings.Builder
	text.WriteString(autocommitInto)
	args := make([]any, 0, len(specs)*(2+len(autocommitRow)))
	began, byOwner := time.Now(), s.blocked.isRecent(blocksRemembered)
	asks := byOwner || !s.free.isRecent(freeRemembered)
	if byOwner {
		for _, spec := range specs {
			args = append(args, spec.Owner())
		}
	}
	first := "created_at"
	if asks {
		first = unlessBlocked(len(args))
	}
	for i, spec := range specs {
		t, err := spec.Resolve(time.Now()) // checks limits and sets all but the times, which the database's clock sets
		if err != nil || t.DedupKey != "" || t.OrderKey != "" {
			return nil, err
		}
		t.Shard = layout.Place(t.Owner)
		row, expression := dueAtMarks, "?"
		if at, fixed := spec.At(); fixed {
			due[i] = at.UnixMilli()
		} else {
			d, _ := spec.In()
			row, expression, due[i] = dueInMarks, "created_at + ?", ceilMs(d)
		}
		if i == 0 {
			row = autocommitMarks(first, expression)[1:] // without its comma
		}
		text.WriteString(row)
		tasks[i] = t
		args = appendValues(append(args, due[i]), autocommitRow, &tasks[i])
	}
	r, err := s.db.ExecContext(ctx, text.String(), args...)
	switch {
	case asks && !byOwner && (serverNumber(err) == outOfRange || serverNumber(err) == lockWaitTimeout): // or a block is not committed yet
		s.blocked.set(time.Now())
		return s.InsertAutocommit(ctx, specs)
	case serverNumber(err) == outOfRange || Classify(err) == Duplicate:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("insert %d tasks, the first %s: %w", len(specs), specs[0].ID(), markUnlessRefused(err))
	}
	if asks && !byOwner {
		s.free.set(began)
	}
	now, err := r.LastInsertId()
	if err != nil {
		return nil, err
	}
	for i, spec := range specs {
		if _, relative := spec.In(); relative {
			due[i] += now
		}
		t := &tasks[i]
		t.CreatedAt, t.UpdatedAt = fromMs(now), fromMs(now)
		t.DueAt = fromMs(max(due[i], now))
		t.RunAt = t.DueAt
	}
	return tasks, nil
}

// ceilMs rounds up to milliseconds, as due times are rounded.
func ceilMs(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

// ReadFree reads a row that no transaction has locked, and the database's time of that moment; false if the row is locked
// or missing, or has an order key: one statement can't change its row of duetime_orders too. It doesn't wait, and keeps no lock.
func (s *Store) ReadFree(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error) {
	var ms int64
	rows, err := s.query(ctx, nil, s.dialect.stateThen(s.dialect.now()+", "+wholeRow.list)+" FROM duetime_tasks WHERE id = ?"+
		s.dialect.skipLocked(), []any{id[:]}, writable{}, &ms)
	if err != nil {
		return task.Task{}, time.Time{}, false, fmt.Errorf("read task %s: %w", id, err)
	}
	if len(rows) == 0 || isOrdered(rows[0]) {
		return task.Task{}, time.Time{}, false, nil
	}
	return rows[0], fromMs(ms), true, nil
}

// WriteAutocommit is Write of one change, of a row of ReadFree, as a transaction of its own.
func (s *Store) WriteAutocommit(ctx context.Context, c transition.Change) error {
	return markUnlessRefused(s.Write(ctx, s.db, []transition.Change{c}))
}
