package reconcile

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// lap is a way through a range of rows by (run_at, id), which may take several passes. It remembers when each part was
// looked at, in this lap and in the previous one: mustPut depends on when a row was last looked at.
type lap struct {
	next       task.Cursor // the last row that was looked at; zero at the beginning of a lap
	began      time.Time   // when the lap began
	before     time.Time   // the latest time at which rows without a known look were looked at
	looks, old []look      // of this lap and of the previous one, in order
	earlier    int         // looks of earlier passes
}

// look says when the rows from a moment on, up to one row, were looked at.
type look struct {
	from time.Time
	upTo task.Cursor
	at   time.Time
}

func (l *lap) underWay() bool { return l.next != (task.Cursor{}) }

// start begins a lap unless one is under way; last is when the previous pass began.
func (l *lap) start(now, last time.Time) {
	if l.underWay() {
		return
	}
	l.began, l.before = now, last
	l.old, l.looks, l.earlier = l.looks, l.old[:0], 0
}

// record records that rows were looked at up to next, or up to the end if next is zero.
func (l *lap) record(from time.Time, next task.Cursor, end, now time.Time) {
	k := look{from: later(from, l.next.At), upTo: next, at: now}
	if next == (task.Cursor{}) {
		k.upTo.At = end
	}
	l.looks = append(l.looks, k)
	l.next = next
}

func (l *lap) endPass() { l.earlier = len(l.looks) }

// lookedAt returns when a row was last looked at in an earlier pass; zero if that is not known.
func (l *lap) lookedAt(at task.Cursor) time.Time {
	return later(find(l.looks[:l.earlier], at), find(l.old, at))
}

func find(looks []look, at task.Cursor) time.Time {
	i, _ := slices.BinarySearchFunc(looks, at, func(k look, at task.Cursor) int {
		return cmp.Or(k.upTo.At.Compare(at.At), bytes.Compare(k.upTo.ID[:], at.ID[:]))
	})
	if i == len(looks) || at.At.Before(looks[i].from) {
		return time.Time{}
	}
	return looks[i].at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
