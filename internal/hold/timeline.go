package hold

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"time"
)

// timeline is a heap of hints by time, and by id where many are due at once: those that are taken together are neighbours in
// the table then, and lock and change few of its pages.
type timeline []heapItem

// heapItem has what a hint is ordered by beside it. Looking at the hints themselves takes a burst's runner longer than all
// else that it does here.
type heapItem struct {
	*Hint

	nano int64  // of LookAt
	head uint64 // of the id
}

func itemOf(e *Hint) heapItem {
	return heapItem{Hint: e, nano: e.LookAt.UnixNano(), head: binary.BigEndian.Uint64(e.ID[:])}
}

// next is when the first hint is to be looked at.
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
	return bytes.Compare(a.ID[:], b.ID[:]) < 0
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

// pop takes the first hint out.
func pop(t *timeline) *Hint { return heap.Pop(t).(*Hint) } //nolint:forcetypeassert // The heap holds nothing else.
