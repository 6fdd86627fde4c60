package protocol_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

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

// An id is fresh by its own time; one of another form, or of another time, never is.
func TestIDsAreFresh(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if id := task.NewID(); !protocol.IsFresh(id, now) || !protocol.IsFresh(id, now.Add(9*time.Minute)) || protocol.IsFresh(id, now.Add(11*time.Minute)) || protocol.IsFresh(id, now.Add(-11*time.Minute)) {
		t.Error("an id is fresh for ten minutes, and no others")
	}
	if protocol.IsFresh(task.ID{}, time.UnixMilli(0)) || protocol.IsFresh(task.ID(uuid.New()), now) {
		t.Error("an id that is no UUIDv7 is fresh")
	}
}
