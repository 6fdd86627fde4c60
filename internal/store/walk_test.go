package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// A walk reads whole rows of its state alone, within its bounds, each once.
func walks(t *testing.T, s *store.Store) {
	var rows []task.Task
	for _, in := range []int{0, 1, 1, 1, 1, 2, 3, 4, 5} {
		rows = append(rows, newTask(t, "ann", time.Duration(in)*time.Second))
	}
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.Finish(ctx, tx, rows[2:3], t0)) })
	var got []task.ID
	for after := (task.Cursor{}); ; {
		page := value[[]task.Task](t)(s.Walk(t.Context(), task.Pending, t0.Add(time.Second), t0.Add(4*time.Second), after, 2))
		for _, row := range page {
			if got = append(got, row.ID); len(row.Payload) == 0 {
				t.Errorf("the walk left the payload of %s out", row.ID)
			}
			after = task.Cursor{At: row.RunAt, ID: row.ID}
		}
		if len(page) < 2 {
			break
		}
	}
	if d := cmp.Diff([]task.ID{rows[1].ID, rows[3].ID, rows[4].ID, rows[5].ID, rows[6].ID}, got); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	done := value[[]task.Task](t)(s.Walk(t.Context(), task.Done, time.Time{}, t0.Add(time.Hour), task.Cursor{}, 10))
	if d := cmp.Diff(ids(rows[2:3]), ids(done)); d != "" {
		t.Errorf("done (-want +got):\n%s", d)
	}
}
