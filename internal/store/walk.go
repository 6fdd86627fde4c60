package store

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Walk reads a page of whole rows in a state with run_at in [from, to), by (run_at, id), after the cursor; a zero cursor means
// from the first row. It reads the index in its order, so it takes the same time however many rows there are. Fewer than limit
// rows mean that this was the last page.
func (s *Store) Walk(
	ctx context.Context, state task.State, from, to time.Time, after task.Cursor, limit int,
) ([]task.Task, error) {
	text, args := walkOrder(state).sql(s.dialect, window{from, to, after, limit})
	tasks, err := s.query(ctx, nil, "SELECT "+wholeRow.list+" FROM duetime_tasks"+text, args)
	if err != nil {
		return nil, fmt.Errorf("walk through %s tasks: %w", state, err)
	}
	return tasks, nil
}

func walkOrder(state task.State) indexOrder {
	return indexOrder{index: "duetime_tasks_due", column: "run_at", where: fmt.Sprintf("state = %d AND ", int8(state))}
}
