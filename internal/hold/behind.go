package hold

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// maxHeads bounds how many tasks are remembered for which hints are held: some end in other processes. Beyond it all are forgotten, and the
// hints wait for their LookAt.
const maxHeads = 1000

// noteHead remembers for which task the hint is held.
func (h *Hold) noteHead(e *Hint) {
	if e.Behind.IsZero() {
		return
	}
	if len(h.heads) >= maxHeads {
		clear(h.heads)
	}
	h.heads[e.Behind] = true
}

// wakeBehind has hints looked at now that are held for tasks of which a hint is settled.
func (h *Hold) wakeBehind(released []*Hint, now time.Time) {
	settled := map[task.ID]bool{}
	for _, e := range released {
		if e.Settled && h.heads[e.ID] {
			settled[e.ID] = true
			delete(h.heads, e.ID)
		}
	}
	if len(settled) == 0 {
		return
	}
	h.retime(func(e *Hint) bool {
		woken := settled[e.Behind] && e.LookAt.After(now)
		if woken {
			e.LookAt = now
		}
		return woken
	})
}
