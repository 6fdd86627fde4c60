package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// saveChunk bounds one statement of Save: for each row the server searches the statement's CASE lists.
const saveChunk = 100

// The columns that transitions may change, except version, which SQL raises by one. Only a replace changes what a task is: the
// statement of all other transitions stays short.
var (
	changing  = having(saved)
	replacing = having(saved | replaced)
)

// Save writes tasks as one transition of pkg/task made them from pending rows, each id once. It returns ErrConflict if a
// row does not have the version before, or has ended; the caller must roll back then.
func (s *Store) Save(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error {
	return s.save(ctx, q, task.Pending, tasks, changing, nil)
}

// SaveReplaced is Save for tasks as task.Task.Replace made them.
func (s *Store) SaveReplaced(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error {
	return s.save(ctx, q, task.Pending, tasks, replacing, nil)
}

// SaveShifted is Save for tasks whose due times have all moved by the same duration: the server adds the duration, and
// does not search a list of times for each row.
func (s *Store) SaveShifted(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, by time.Duration) error {
	return s.save(ctx, q, task.Pending, tasks, changing, &by)
}

// SaveDead is Save for transitions of dead rows. It returns task.ErrKeyTaken if another task has the key of one of them, and
// task.ErrOwnerBlocked if one that is to be pending again has a blocked owner: nothing was written then.
func (s *Store) SaveDead(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error {
	var owners []string
	for _, t := range tasks {
		if t.State == task.Pending {
			owners = append(owners, t.Owner)
		}
	}
	for part := range slices.Chunk(owners, task.MaxPerCall) {
		if _, blocked, err := s.NowAndBlocked(ctx, q, part); err != nil {
			return err
		} else if blocked != "" {
			return fmt.Errorf("retry a task of owner %s: %w", blocked, task.ErrOwnerBlocked)
		}
	}
	err := s.save(ctx, q, task.Dead, tasks, changing, nil)
	if Classify(err) == Duplicate {
		return fmt.Errorf("%w: %w", task.ErrKeyTaken, err)
	}
	return err
}

func (s *Store) save(
	ctx context.Context, q sqlx.ExtContext, from task.State, tasks []task.Task, of []column, by *time.Duration,
) error {
	byID := slices.SortedFunc(slices.Values(tasks), func(a, b task.Task) int { return compareIDs(a.ID, b.ID) })
	for part := range slices.Chunk(byID, saveChunk) {
		set, args := s.dialect.assignments(part, of, by)
		where, ids := versions(part, 1)
		if err := s.update(ctx, q, from, set, append(args, ids...), where, len(part)); err != nil {
			return fmt.Errorf("save %d tasks, the first %s: %w", len(tasks), tasks[0].ID, err)
		}
	}
	return nil
}

// SaveQueue writes tasks as task.Task.Requeue made them, all at one moment and to one queue, each id once. It returns the
// errors of Save.
func (s *Store) SaveQueue(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	const set = "queue = ?, version = version + 1, updated_at = ?"
	where, ids := versions(tasks, 1)
	args := append([]any{tasks[0].Queue, tasks[0].UpdatedAt.UnixMilli()}, ids...)
	if err := s.update(ctx, q, task.Pending, set, args, where, len(tasks)); err != nil {
		return fmt.Errorf("requeue %d tasks, the first %s: %w", len(tasks), tasks[0].ID, err)
	}
	return nil
}

// Finish marks tasks done at this moment. The tasks are as they were before the transition, each id once. It returns
// ErrConflict if a row does not have the task's version, or has ended; the caller must roll back then.
func (s *Store) Finish(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, now time.Time) error {
	if len(tasks) == 0 {
		return nil
	}
	const set = "state = 1, version = version + 1, finished_at = ?, updated_at = ?, " +
		"dedup_key = CASE WHEN SUBSTR(dedup_key, 1, 1) = 'k' THEN NULL ELSE dedup_key END"
	where, ids := versions(tasks, 0)
	args := append([]any{now.UnixMilli(), now.UnixMilli()}, ids...)
	if err := s.update(ctx, q, task.Pending, set, args, where, len(tasks)); err != nil {
		return fmt.Errorf("finish %d tasks, the first %s: %w", len(tasks), tasks[0].ID, err)
	}
	return nil
}

func (s *Store) update(ctx context.Context, q sqlx.ExtContext, from task.State, set string, args []any, where string, want int) error {
	r, err := q.ExecContext(ctx, fmt.Sprintf("UPDATE duetime_tasks%s SET %s WHERE state = %d AND %s",
		s.dialect.force("PRIMARY"), set, from, where), args...)
	if err != nil {
		return err
	}
	got, err := r.RowsAffected() // counts each matched row, because the version always changes
	if err == nil && got != int64(want) {
		return &conflictError{got, int64(want)}
	}
	return err
}

// versions is the condition that each row has its task's version minus behind. Nearly all tasks of a batch have one of
// two versions, so a list of (id, version) pairs would be slower.
func versions(tasks []task.Task, behind int64) (string, []any) {
	groups := map[int64][]task.ID{}
	for _, t := range tasks {
		groups[t.Version-behind] = append(groups[t.Version-behind], t.ID)
	}
	conditions := make([]string, 0, len(groups))
	var args []any
	for _, v := range slices.Sorted(maps.Keys(groups)) {
		conditions = append(conditions, "version = ? AND id IN ("+marks(len(groups[v]))+")")
		args = append(append(args, v), idArgs(sorted(groups[v]))...)
	}
	return "(" + strings.Join(conditions, " OR ") + ")", args
}

// assignments sets the columns that may have changed: to one value if all tasks have the same, otherwise by CASE. If by
// is set, all due times have moved by it, and due_at is set by a sum.
func (d Dialect) assignments(tasks []task.Task, of []column, by *time.Duration) (string, []any) {
	set := []string{"version = version + 1"}
	var args []any
	same := !slices.ContainsFunc(tasks, func(t task.Task) bool { return !t.RunAt.Equal(t.DueAt) })
	for _, c := range of {
		first := c.value(&tasks[0])
		switch {
		case c.name == "run_at" && same && d == MySQL:
			set = append(set, "run_at = due_at") // the value that was set just before
		case c.name == "due_at" && by != nil:
			set = append(set, "due_at = due_at + ?")
			args = append(args, by.Milliseconds())
		case c.agree(tasks, first):
			set = append(set, c.name+" = ?")
			args = append(args, first)
		default:
			set = append(set, c.name+" = CASE id"+strings.Repeat(" WHEN ? THEN ?", len(tasks))+" END")
			for i := range tasks {
				args = append(args, tasks[i].ID[:], c.value(&tasks[i]))
			}
		}
	}
	return strings.Join(set, ", "), args
}

// agree reports whether all tasks have this value in the column.
func (c column) agree(tasks []task.Task, value any) bool {
	for i := range tasks {
		if c.value(&tasks[i]) != value {
			return false
		}
	}
	return true
}
