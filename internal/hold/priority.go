package hold

import (
	"container/heap"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// priorities is the number of priorities, each a line of its own.
const priorities = 3

// order of the lines, the most urgent first.
var rank = map[task.PriorityLevel]int{task.High: 0, task.Normal: 1, task.Low: 2}

// lines are the hints of a lane, a timeline for each priority.
type lines [priorities]timeline

// next returns when the first hint of any priority is to be looked at; false if there is none.
func (l *lines) next() (at time.Time, ok bool) {
	for i := range l {
		if len(l[i]) > 0 && (!ok || l[i].next().Before(at)) {
			at, ok = l[i].next(), true
		}
	}
	return at, ok
}

// due returns the timeline of the highest priority with a hint until a moment; nil if there is none.
func (l *lines) due(until time.Time) *timeline {
	for i := range l {
		if len(l[i]) > 0 && !l[i].next().After(until) {
			return &l[i]
		}
	}
	return nil
}

// pop removes the hint that is handed out next: one that is due now, by priority, or the first one. There must be one.
func (l *lines) pop(now time.Time) *Hint {
	if line := l.due(now); line != nil {
		return pop(line)
	}
	at, _ := l.next()
	return pop(l.due(at))
}

// push adds a hint, and reports whether it is the first of its priority.
func (l *lines) push(e *Hint) bool {
	line := &l[e.rank]
	heap.Push(line, e)
	return (*line)[0].Hint == e
}

func (l *lines) empty() bool {
	_, ok := l.next()
	return !ok
}
