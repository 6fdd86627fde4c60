package views

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// DeadTask is what tells why a task is dead.
type DeadTask struct {
	ID    task.ID
	Kind  string
	Error string // the beginning of its text
	Died  time.Time
}

// MaxError is how many characters of an error are read: alike errors begin alike.
const MaxError = 200

// Dead reads the newest dead tasks by their last run time, at most limit.
func (v Views) Dead(ctx context.Context, limit int) ([]DeadTask, error) {
	var rows []struct {
		ID          []byte
		Kind, Error string
		Died        int64
	}
	if err := v.Store.DB().SelectContext(ctx, &rows, deadSQL(v.Store.Dialect()), limit); err != nil {
		return nil, fmt.Errorf("read dead tasks: %w", err)
	}
	all := make([]DeadTask, len(rows))
	for i, r := range rows {
		all[i] = DeadTask{Kind: r.Kind, Error: r.Error, Died: time.UnixMilli(r.Died).UTC()}
		copy(all[i].ID[:], r.ID)
	}
	return all, nil
}

func deadSQL(d store.Dialect) string {
	return fmt.Sprintf("SELECT id, kind, SUBSTR(last_error, 1, %d) AS error, COALESCE(finished_at, updated_at) AS died FROM duetime_tasks%s"+
		" WHERE state = 3 ORDER BY run_at DESC, id DESC LIMIT ?", MaxError, d.Force("duetime_tasks_due"))
}
