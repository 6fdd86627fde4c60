package store

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// DeadTask is what tells why a task is dead.
type DeadTask struct {
	ID    task.ID
	Kind  string
	Error string // the beginning of its text
	Died  time.Time
}

// maxErrorRead is how many characters of an error are read: alike errors begin alike.
const maxErrorRead = 200

// Dead reads the newest dead tasks by their last run time, at most limit.
func (s *Store) Dead(ctx context.Context, limit int) ([]DeadTask, error) {
	var all []DeadTask
	var d DeadTask
	var died int64
	err := forEach(ctx, s.db, deadSQL(s.dialect), []any{limit}, []any{idBytes{&d.ID}, &d.Kind, &d.Error, &died}, func() {
		d.Died = fromMs(died)
		all = append(all, d)
	})
	if err != nil {
		return nil, fmt.Errorf("read dead tasks: %w", err)
	}
	return all, nil
}

func deadSQL(d Dialect) string {
	return fmt.Sprintf("SELECT id, kind, SUBSTR(last_error, 1, %d), COALESCE(finished_at, updated_at) FROM duetime_tasks%s"+
		" WHERE state = 3 ORDER BY run_at DESC, id DESC LIMIT ?", maxErrorRead, d.Force("duetime_tasks_due"))
}
