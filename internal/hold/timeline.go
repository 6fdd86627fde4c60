package hold

import (
	"container/heap"
	"encoding/binary"
	"time"
)

// timeline is a heap of hints by time, then by id: hints of one moment that are taken together have neighbouring rows,
// so that their transaction locks and changes few pages of the table.
type timeline []heapItem

// heapItem repeats the two fields that order hints. Reading them from the hints, scattered in memory, costs a burst's
// runner more than all else in this package (BenchmarkHoldBatch).
type heapItem struct {
	*Hint

	nano int64  // of LookAt
	head uint64 // first bytes of the id
}

func itemOf(e *Hint) heapItem {
	return heapItem{Hint: e, nano: e.LookAt.UnixNano(), head: binary.BigEndian.Uint64(e.ID[:])}
}

// next returns when the first hint is to be looked at.
func (t timeline) next() time.Time { return t[0].LookAt }

func (t timeline) Len() int { return len(t) }
func (t timeline) Less(i, j int) bool {
	a, b := &t[i], &t[j]
	switch {
	case a.nano != b.nano:
		return a.nano < b.nano
	case a.head != b.head:
		return a.head < b.head
	}
	return a.ID.Compare(b.ID) < 0
}
func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timeline) Push(x any)   { *t = append(*t, itemOf(x.(*Hint))) } //nolint:forcetypeassert // The heap holds nothing else.
func (t *timeline) Pop() any {
	old := *t
	last := old[len(old)-1].Hint
	old[len(old)-1] = heapItem{}
	*t = old[:len(old)-1]
	return last
}

// pop removes the first hint.
func pop(t *timeline) *Hint { return heap.Pop(t).(*Hint) } //nolint:forcetypeassert // The heap holds nothing else.
