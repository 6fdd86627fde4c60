package store

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// WalkQuery asks for rows of one state, by (run_at, id).
type WalkQuery struct {
	State                task.State
	From, To             time.Time       // of run_at: [From, To)
	DueAfter, DueBefore  time.Time       // of due_at: [DueAfter, DueBefore); zero: no bound
	After                protocol.Cursor // zero: from the first row
	Kind, Queue, Subject string          // empty: all
	Exclude              task.Exclusion
	Scan                 int // rows that are read
	Limit                int // rows that are returned
}

// Walk reads whole rows, and returns where the next page begins; zero when there are no more rows. It reads the index in its
// order, so it takes the same time however many rows there are. A page may have no rows, and yet a next one.
func (s *Store) Walk(ctx context.Context, q WalkQuery) (tasks []task.Task, next protocol.Cursor, err error) {
	w := window{q.From, q.To, q.After, q.Scan}
	if next, err = s.pageEnd(ctx, walkOrder(q.State), w); err == nil {
		text, args := q.sql(s.dialect, w, next)
		tasks, err = s.query(ctx, nil, "SELECT "+wholeRow.list+text, args)
	}
	if err != nil {
		return nil, protocol.Cursor{}, fmt.Errorf("walk through %s tasks: %w", q.State, err)
	}
	if len(tasks) > q.Limit {
		tasks = tasks[:q.Limit]
		next = protocol.Cursor{At: tasks[q.Limit-1].RunAt, ID: tasks[q.Limit-1].ID}
	}
	return tasks, next, nil
}

// sql reads one row more than are returned, which says that there are more.
func (q WalkQuery) sql(d Dialect, w window, end protocol.Cursor) (string, []any) {
	var c conditions
	c.add("state = ?", int8(q.State))
	c.addEqual("", q.Kind, q.Queue, q.Subject)
	c.addDue(q.DueAfter, q.DueBefore)
	c.addExclusion(q.Exclude, q.Queue)
	return walkOrder(q.State).selectSQL(d, w, end, c.text(), c.args, q.Limit+1)
}

func walkOrder(state task.State) indexOrder {
	return indexOrder{index: "duetime_tasks_due", column: "run_at", where: fmt.Sprintf("state = %d AND ", int8(state))}
}
