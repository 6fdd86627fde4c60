package hold

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// A hint that is held for an earlier task is looked at as soon as that is settled, also while its owner's runner has it parked. One that is
// held for another task waits for its own moment.
func TestHintBehindIsWoken(t *testing.T) {
	t.Parallel()
	c := localClock()
	h := New(c)
	head, behind, other := task.NewID(), task.NewID(), task.NewID()
	for i, id := range []task.ID{head, behind, other} {
		h.Add(&Hint{Hint: protocol.Hint{ID: id, Owner: string(rune('a' + i))}, LookAt: c.Now()})
	}
	taken, _ := h.takeDue(LaneBatch, 10)
	if len(taken) != 3 {
		t.Fatalf("took %d, want 3", len(taken))
	}
	var first *Hint
	for _, e := range taken {
		switch e.ID {
		case head:
			first = e
		case behind:
			e.Behind, e.LookAt = head, c.Now().Add(time.Hour)
		default:
			e.Behind, e.LookAt = task.NewID(), c.Now().Add(time.Hour)
		}
	}
	first.LookAt = c.Now()
	h.Release(taken)
	if again, _ := h.takeDue(LaneBatch, 10); len(again) != 1 || again[0] != first {
		t.Fatalf("took %v, want the head alone", again)
	}
	first.Settled = true
	h.Release([]*Hint{first})
	if woken, _ := h.takeDue(LaneBatch, 10); len(woken) != 1 || woken[0].ID != behind {
		t.Errorf("took %v, want the hint behind the head", woken)
	}
}
