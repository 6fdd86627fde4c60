package schedule_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Calls of one task write its row of duetime_orders with the task: there is no statement of its own for both.
func TestCallsOfOneTaskKeepItsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	march := task.NewKind[int]("march", task.InOrder())
	due := func(id task.ID) int {
		return w.store.Number("SELECT COALESCE(MAX(due_at), 0) FROM duetime_orders WHERE task_id = ?", id[:])
	}
	check := func(what string, row task.Task) {
		t.Helper()
		want := 0
		if row.State == task.Pending {
			want = int(row.DueAt.UnixMilli())
		}
		if got := due(row.ID); got != want {
			t.Errorf("%s: due %d in duetime_orders, want %d", what, got, want)
		}
		w.wantRow(t, what, row)
	}
	row, err := w.Schedule(t.Context(), march.New("ann", 1, task.In(time.Hour), task.OrderKey("city")))
	pipelinetest.Must(t, err)
	check("scheduled", row)
	row, err = w.Reschedule(t.Context(), row.ID, task.In(2*time.Hour))
	pipelinetest.Must(t, err)
	check("moved", row)
	row, err = w.Shift(t.Context(), row.ID, -time.Minute)
	pipelinetest.Must(t, err)
	check("shifted", row)
	if text := transition.OrderText(row); text != "city" {
		t.Errorf("its order key is %q", text)
	}
	row, err = w.Cancel(t.Context(), row.ID)
	pipelinetest.Must(t, err)
	check("cancelled", row)
}
