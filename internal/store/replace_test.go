package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func saveReplaced(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 250)...)
	step := func(with func(i int, row task.Task) task.Task) {
		t.Helper()
		for i := range rows {
			rows[i] = value[task.Task](t)(transition.Replace(rows[i], with(i, rows[i]), t0.Add(time.Second)))
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, rows...)) })
		if d := cmp.Diff(rows, value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows)))); d != "" {
			t.Fatalf("after SaveReplaced (-want +got):\n%s", d)
		}
	}
	step(func(i int, row task.Task) task.Task {
		row.Payload = fmt.Appendf(nil, `"it's %d"`, i)
		row.MaxAttempts, row.Traceparent, row.DueAt = 2+i, fmt.Sprintf("trace %d", i), t0.Add(time.Duration(i)*time.Minute)
		return row
	})
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i := range rows {
			rows[i] = transition.Fail(rows[i], errors.New("no"), time.Second, t0.Add(time.Second))
		}
		must(t, worldtest.Save(ctx, s, tx, rows...))
	})
	step(func(_ int, row task.Task) task.Task { // all alike
		row.Payload, row.MaxAttempts, row.Traceparent, row.DueAt = []byte("{}"), 7, "", t0.Add(time.Hour)
		return row
	})
	if err := worldtest.Save(t.Context(), s, begin(t, s), rows...); !errors.Is(err, store.ErrConflict) {
		t.Errorf("SaveReplaced of a version that stands: %v, want ErrConflict", err)
	}
}

func longestWindowKey(t *testing.T, s *store.Store) {
	option := task.Window(strings.Repeat("k", task.MaxKey), time.Second)
	row := inserted(t, s, newTask(t, "ann", time.Hour, option))[0]
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, []task.Task{row}, t0)) })
	got := inserted(t, s, newTask(t, "ann", time.Hour, option), newTask(t, "ann", time.Hour, task.Window("k", time.Second)))
	if got[0].ID != row.ID || got[0].State != task.Done || got[0].DedupKey != row.DedupKey {
		t.Errorf("got %+v, want the task that was admitted", got[0])
	}
	if got[1].ID == row.ID {
		t.Error("a shorter key found the task")
	}
}
