package reconcile

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// lap is a way through a stretch of rows by (run_at, id), which may take several passes. It remembers when each part was
// looked at, in this lap and the one before: whether a row's turn has come depends on it.
type lap struct {
	next       task.Cursor // the last row that was looked at; zero at the beginning of a lap
	began      time.Time   // when the lap did
	before     time.Time   // when the rows that no look is known of were looked at, at the latest
	looks, old []look      // of this lap and of the one before, in order
	seen       int         // looks of passes before this one
}

// look says when the rows from a moment on, up to one of them, were looked at.
type look struct {
	from time.Time
	upTo task.Cursor
	at   time.Time
}

// under reports whether the lap is under way.
func (l *lap) under() bool { return l.next != (task.Cursor{}) }

// start begins a lap unless one is under way; last is when the pass before began.
func (l *lap) start(now, last time.Time) {
	if l.under() {
		return
	}
	l.began, l.before = now, last
	l.old, l.looks, l.seen = l.looks, l.old[:0], 0
}

// reach notes that the rows of a stretch were looked at up to next, or up to the end where that is zero.
func (l *lap) reach(from time.Time, next task.Cursor, end, now time.Time) {
	k := look{from: later(from, l.next.At), upTo: next, at: now}
	if next == (task.Cursor{}) {
		k.upTo.At = end
	}
	l.looks = append(l.looks, k)
	l.next = next
}

// passed ends a pass.
func (l *lap) passed() { l.seen = len(l.looks) }

// lookedAt is when the row at a place was last looked at in an earlier pass; zero if that is not known.
func (l *lap) lookedAt(at task.Cursor) time.Time {
	return later(find(l.looks[:l.seen], at), find(l.old, at))
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
