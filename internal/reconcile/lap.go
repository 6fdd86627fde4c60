package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// lap is a walk through a range of rows by (run_at, id), which may take several passes. It remembers when each part was
// looked at, in this lap and in the previous one: mustPut depends on when a row was last looked at.
type lap struct {
	walk
	began      time.Time // when the lap began
	before     time.Time // the latest time at which rows without a known look were looked at
	looks, old []look    // of this lap and of the previous one, in order
}

// look says when the rows from a moment on, up to one row, were looked at.
type look struct {
	from time.Time
	upTo protocol.Cursor
	at   time.Time
}

// start begins a lap unless one is under way; last is when the previous pass began.
func (l *lap) start(now, last time.Time) {
	if l.underWay() {
		return
	}
	l.began, l.before = now, last
	l.old, l.looks = l.looks, l.old[:0]
}

// record records that rows from a moment on were looked at, up to where the lap has come, or up to the end.
func (l *lap) record(from, end, now time.Time) {
	k := look{from: from, upTo: l.after, at: now}
	if !l.underWay() {
		k.upTo.At = end
	}
	l.looks = append(l.looks, k)
}

// lookedAt returns when a row was last looked at; zero if that is not known.
func (l *lap) lookedAt(at protocol.Cursor) time.Time {
	return later(find(l.looks, at), find(l.old, at))
}

func find(looks []look, at protocol.Cursor) time.Time {
	i, _ := slices.BinarySearchFunc(looks, at, func(k look, at protocol.Cursor) int {
		return cmp.Or(k.upTo.At.Compare(at.At), k.upTo.ID.Compare(at.ID))
	})
	if i == len(looks) || at.At.Before(looks[i].from) {
		return time.Time{}
	}
	return looks[i].at
}
