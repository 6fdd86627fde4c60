package store

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// byOwner goes through the pending rows of one owner, which is its first argument.
var byOwner = sweep{index: "duetime_tasks_owner", column: "run_at", where: "owner = ? AND state = 0 AND "}

// ListOwnerPage reads a page of an owner's pending rows by (run_at, id), beginning after the cursor; a zero cursor begins with
// the first. Only what a list needs is read. Fewer than limit rows mean that this was the last page.
func (s *Store) ListOwnerPage(ctx context.Context, owner string, after task.Cursor, limit int) ([]task.Task, error) {
	text, args := byOwner.sql(s.dialect, window{time.Time{}, time.UnixMilli(1 << 60), after, limit})
	tasks, err := s.read(ctx, nil, entry.scanner(), "SELECT "+entry.list+" FROM duetime_tasks"+text, append([]any{owner}, args...))
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return tasks, nil
}
