package task

// PriorityLevel orders the due tasks of one queue.
type PriorityLevel int

// The priorities, in the order in which due tasks run.
const (
	Normal PriorityLevel = iota // the default
	High
	Low
)

// String returns high, normal or low; empty for another value.
func (p PriorityLevel) String() string {
	switch p {
	case Normal:
		return "normal"
	case High:
		return "high"
	case Low:
		return "low"
	}
	return ""
}

// Priority says which of a queue's due tasks run first, where there are more than its workers or its limit let run: those
// of kinds of High priority, then Normal, then Low; within one priority by their time. A worker orders what it has fetched,
// up to 250,000 tasks. While tasks of a higher priority are due, those of a lower one wait, without an end to it: a
// queue of its own (Queue) shares nothing.
func Priority(p PriorityLevel) KindOption { return func(k *KindInfo) { k.Priority = p } }
