package protocol_test

import (
	"slices"
	"testing"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	low, high := task.Task{ID: task.ID{0: 1, 15: 9}, Owner: "ann"}, task.Task{ID: task.ID{0: 200}, Owner: "bob"}
	ids := protocol.IDs([]task.Task{high, low})
	slices.SortFunc(ids, task.ID.Compare)
	if !slices.Equal(ids, []task.ID{low.ID, high.ID}) {
		t.Errorf("%v are not in the order of their bytes", ids)
	}
	if got := protocol.ByID([]task.Task{high, low}); got[low.ID].Owner != "ann" || got[high.ID].Owner != "bob" {
		t.Errorf("by id: %v", got)
	}
}
