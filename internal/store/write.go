package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// writeChunk bounds one statement of Write that gives rows values of their own: for each row the server searches its CASE lists.
const writeChunk = 100

// The columns that transitions may change, except version, which SQL raises by one.
var changeable = having(changed)

// Write writes transitions that pkg/task made of rows that are there, each id once, over the version before. It returns ErrConflict if a
// row does not have that version, or is in another state than before; the caller must roll back then. The rows are all dead before, or
// all pending. A dead task that is to wait again answers task.ErrOwnerBlocked or task.ErrKeyTaken if it can't: the caller may go on then.
//
// The statement has the columns that differ, so it is as short as the transition.
func (s *Store) Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error {
	if len(changes) == 0 {
		return nil
	}
	byID := make([]*transition.Change, len(changes)) // a change is large
	for i := range changes {
		byID[i] = &changes[i]
	}
	slices.SortFunc(byID, func(a, b *transition.Change) int { return a.After.ID.Compare(b.After.ID) })
	write := s.writePending
	if changes[0].Before.State == task.Dead {
		write = s.writeDead
	}
	if err := write(ctx, q, byID); err != nil {
		return err
	}
	return s.followOrders(ctx, q, byID)
}

func (s *Store) writePending(ctx context.Context, q sqlx.ExtContext, changes []*transition.Change) error {
	return s.write(ctx, q, task.Pending, changes)
}

// writeDead writes transitions of dead tasks.
func (s *Store) writeDead(ctx context.Context, q sqlx.ExtContext, changes []*transition.Change) error {
	var owners []string
	for _, c := range changes {
		if c.After.State == task.Pending {
			owners = append(owners, c.After.Owner)
		}
	}
	for part := range slices.Chunk(owners, task.MaxPerCall) {
		if _, blocked, err := s.NowAndBlocked(ctx, q, part); err != nil {
			return err
		} else if blocked != "" {
			return fmt.Errorf("retry a task of owner %s: %w", blocked, task.ErrOwnerBlocked)
		}
	}
	err := s.write(ctx, q, task.Dead, changes)
	if Classify(err) == Duplicate {
		return fmt.Errorf("%w: %w", task.ErrKeyTaken, err)
	}
	return err
}

// write writes transitions from one state: in one statement, unless rows get values of their own and are many.
func (s *Store) write(ctx context.Context, q sqlx.ExtContext, from task.State, changes []*transition.Change) error {
	if len(changes) == 0 {
		return nil
	}
	set, args, own := s.dialect.assignments(changes)
	if own && len(changes) > writeChunk {
		for part := range slices.Chunk(changes, writeChunk) {
			if err := s.write(ctx, q, from, part); err != nil {
				return err
			}
		}
		return nil
	}
	where, ids := versions(changes)
	if err := s.update(ctx, q, from, set, append(args, ids...), where, len(changes)); err != nil {
		return fmt.Errorf("write %d tasks, the first %s: %w", len(changes), changes[0].After.ID, err)
	}
	return nil
}

func (s *Store) update(ctx context.Context, q sqlx.ExtContext, from task.State, set string, args []any, where string, want int) error {
	r, err := q.ExecContext(ctx, fmt.Sprintf("UPDATE duetime_tasks%s SET %s WHERE state = %d AND %s",
		s.dialect.Force("PRIMARY"), set, from, where), args...)
	if err != nil {
		return err
	}
	got, err := r.RowsAffected() // counts each matched row, because the version always changes
	if err == nil && got != int64(want) {
		return &conflictError{got, int64(want)}
	}
	return err
}

// versions is the condition that each row has the version before its change. Nearly all tasks of a batch have one of two versions, so a
// list of (id, version) pairs would be slower.
func versions(changes []*transition.Change) (string, []any) {
	groups := map[int64][]task.ID{}
	for _, c := range changes {
		groups[c.After.Version-1] = append(groups[c.After.Version-1], c.After.ID)
	}
	conditions := make([]string, 0, len(groups))
	var args []any
	for _, v := range slices.Sorted(maps.Keys(groups)) {
		conditions = append(conditions, "version = ? AND id IN ("+marks(len(groups[v]))+")")
		args = append(append(args, v), idArgs(groups[v])...)
	}
	return "(" + strings.Join(conditions, " OR ") + ")", args
}

// assignments sets the columns in which a change differs. A value that all share is sent once, and so is the distance by which all due
// times move; in any other column the rows that don't have the commonest value have their own.
func (d Dialect) assignments(changes []*transition.Change) (set string, args []any, own bool) {
	sets := []string{"version = version + 1"}
	for _, c := range changeable {
		if !differ(c, changes) {
			continue
		}
		first := c.value(&changes[0].After)
		switch {
		case agree(c, changes, first):
			sets = append(sets, c.name+" = ?")
			args = append(args, first)
		case c.name == "due_at" && movedTogether(changes):
			sets = append(sets, "due_at = due_at + ?")
			args = append(args, changes[0].After.DueAt.Sub(changes[0].Before.DueAt).Milliseconds())
		case c.name == "run_at" && d == MySQL && dueNext(changes):
			sets = append(sets, "run_at = due_at") // the value that was set just before
		default:
			own = true
			common := commonest(c, changes)
			whens := 0
			for i := range changes {
				if value := c.value(&changes[i].After); value != common {
					args = append(args, changes[i].After.ID[:], value)
					whens++
				}
			}
			sets = append(sets, c.name+" = CASE id"+strings.Repeat(" WHEN ? THEN ?", whens)+" ELSE ? END")
			args = append(args, common)
		}
	}
	return strings.Join(sets, ", "), args, own
}

// differ reports whether one of the changes differs in the column.
func differ(c column[task.Task], changes []*transition.Change) bool {
	return slices.ContainsFunc(changes, func(a *transition.Change) bool { return !c.same(&a.Before, &a.After) })
}

// agree reports whether all rows get this value.
func agree(c column[task.Task], changes []*transition.Change, value any) bool {
	return !slices.ContainsFunc(changes, func(a *transition.Change) bool { return c.value(&a.After) != value })
}

// commonest returns the value that most rows get.
func commonest(c column[task.Task], changes []*transition.Change) (value any) {
	n := map[any]int{}
	for i := range changes {
		v := c.value(&changes[i].After)
		if n[v]++; n[v] > n[value] || i == 0 {
			value = v
		}
	}
	return value
}

// movedTogether reports whether all due times move by the same.
func movedTogether(changes []*transition.Change) bool {
	by := changes[0].After.DueAt.Sub(changes[0].Before.DueAt)
	return !slices.ContainsFunc(changes, func(c *transition.Change) bool { return c.After.DueAt.Sub(c.Before.DueAt) != by })
}

// dueNext reports whether each task's next attempt is at its due time.
func dueNext(changes []*transition.Change) bool {
	return !slices.ContainsFunc(changes, func(c *transition.Change) bool { return !c.After.RunAt.Equal(c.After.DueAt) })
}
