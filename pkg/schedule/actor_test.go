package schedule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A transaction made in another name has that name in the history, whether it writes its lines itself or not.
func TestTransactionsActor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	later, now, other := w.make(t, "ann"), w.make(t, "ann"), w.make(t, "ann")
	for id, record := range map[task.ID]bool{later.ID: false, now.ID: true} {
		pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
			if _, err := tx.As("grace@support").Cancel(ctx, id); err != nil || !record {
				return err
			}
			return insideOf(tx).Ledger().Record(ctx)
		}))
	}
	_, err := w.Cancel(ctx, other.ID)
	pipelinetest.Must(t, err)
	w.Close(ctx) // writes what waits
	for id, want := range map[task.ID]string{
		later.ID: "grace@support cancelled ", now.ID: "grace@support cancelled ", other.ID: "service cancelled ",
	} {
		if d := cmp.Diff([]string{want}, w.life(t, id)); d != "" {
			t.Errorf("history (-want +got):\n%s", d)
		}
	}
}
