package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// WalkQuery asks for rows of one state, by (run_at, id); or for those of duetime_ended, by (finished_at, id).
type WalkQuery struct {
	State                task.State
	Ended                bool            // those of duetime_ended
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
	w := q.window()
	if next, err = s.pageEnd(ctx, q.order(), w); err == nil {
		text, args := q.sql(s.dialect, w, next)
		tasks, err = s.query(ctx, nil, "SELECT "+wholeRow.list+text, args)
	}
	if err != nil {
		return nil, protocol.Cursor{}, fmt.Errorf("walk through %s tasks: %w", q.State, err)
	}
	if len(tasks) > q.Limit {
		tasks = tasks[:q.Limit]
		next = q.Place(tasks[q.Limit-1])
	}
	return tasks, next, nil
}

// Place is where a walk goes on behind a task.
func (q WalkQuery) Place(t task.Task) protocol.Cursor {
	if q.Ended {
		return protocol.Cursor{At: t.FinishedAt, ID: t.ID}
	}
	return protocol.Cursor{At: t.RunAt, ID: t.ID}
}

func (q WalkQuery) window() window {
	if !q.Ended {
		return window{q.From, q.To, q.After, q.Scan}
	}
	w := window{to: endOfTime, after: q.After, limit: q.Scan}
	if q.State == task.Done { // no task is done before its run time
		w.from = q.From
	}
	return w
}

// sql reads one row more than are returned, which says that there are more.
func (q WalkQuery) sql(d Dialect, w window, end protocol.Cursor) (string, []any) {
	var c conditions
	c.add("state = ?", int8(q.State))
	if q.Ended {
		c.add("run_at >= ? AND run_at < ?", q.From.UnixMilli(), q.To.UnixMilli())
	}
	c.addEqual("", q.Kind, q.Queue, q.Subject)
	c.addDue(q.DueAfter, q.DueBefore)
	c.addExclusion(q.Exclude, q.Queue)
	return q.order().selectSQL(d, w, end, c.text(), c.args, q.Limit+1)
}

func (q WalkQuery) order() indexOrder {
	if q.Ended {
		return endedOrder(q.State)
	}
	return indexOrder{index: "duetime_tasks_due", column: "run_at", where: "state = " + strconv.Itoa(int(q.State)) + " AND "}
}
