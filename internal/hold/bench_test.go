package hold

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// BenchmarkHoldBatch measures the time of one batch of 100 under the hold's lock: two runners take and release. All
// hints are due. They have one owner, or an owner each.
func BenchmarkHoldBatch(b *testing.B) {
	for _, c := range []struct{ owners, hints int }{{1, 1_000}, {1, 200_000}, {200_000, 200_000}} {
		b.Run(fmt.Sprintf("owners=%d/hints=%d", c.owners, c.hints), func(b *testing.B) {
			h := filled(c.owners, c.hints)
			for b.Loop() {
				first, _ := h.takeDue(LaneBatch, 100)
				second, _ := h.takeDue(LaneBatch, 100)
				h.Release(first)
				h.Release(second)
			}
		})
	}
}

// BenchmarkHoldAdd measures how long adding, taking and releasing a hint takes.
func BenchmarkHoldAdd(b *testing.B) {
	h, n := New(localClock()), uint64(0)
	at := h.clock.Now().Add(-time.Second)
	for b.Loop() {
		n++
		h.Add(numbered(n, fmt.Sprint(n), at))
		if n%100 == 0 {
			taken, _ := h.takeDue(LaneBatch, 100)
			for _, e := range taken {
				e.Settled = true
			}
			h.Release(taken)
		}
	}
}

func filled(owners, hints int) *Hold {
	h := New(localClock())
	at := h.clock.Now().Add(-time.Minute)
	for i := range hints {
		h.Add(numbered(uint64(i), fmt.Sprint(i%owners), at))
	}
	return h
}

func numbered(n uint64, owner string, at time.Time) *Hint {
	var id task.ID
	binary.BigEndian.PutUint64(id[8:], n)
	return &Hint{Hint: protocol.Hint{ID: id, Version: 1, Owner: owner}, LookAt: at, PatientSince: at}
}

// A batch costs about the same under the lock that all runners share, however many hints its owner has.
func TestCrowdedOwnerCostsNoMoreABatch(t *testing.T) {
	t.Parallel()
	few, many := filled(1, 1_000), filled(1, 100_000)
	shortestBatch := func(h *Hold) time.Duration {
		shortest := time.Hour
		for range 300 { // the first rounds park all due hints of the owner
			began := time.Now()
			first, _ := h.takeDue(LaneBatch, 100)
			second, _ := h.takeDue(LaneBatch, 100)
			h.Release(first)
			h.Release(second)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	small, large := shortestBatch(few), shortestBatch(many)
	t.Logf("a batch takes %v with 1,000 hints of one owner, %v with 100,000", small, large)
	if large > 20*small {
		t.Errorf("a batch takes %v with 1,000 hints of one owner, %v with 100,000", small, large)
	}
}
