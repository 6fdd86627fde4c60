package group

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
)

// Count is what a group's counts and its members' rows say at one moment.
type Count struct {
	Counted, Rows Part
	Written       int64     // another number says that the counts were written since
	CheckedAt     time.Time // as the group's row says
}

// Add adds the rows of further members. It returns false if the counts were written since: then the rows are of different moments.
func (c *Count) Add(further Count) bool {
	if further.Counted != c.Counted || further.Written != c.Written || !further.CheckedAt.Equal(c.CheckedAt) {
		return false
	}
	c.Rows.add(further.Rows)
	return true
}

// Uncounted is how many members have ended, or were retried, without being counted: programs that don't count may have ended members,
// retried them, or deleted their rows.
func (c Count) Uncounted() int { return max(c.Counted.Open-c.Rows.Open, c.Rows.Open-c.Counted.Open) }

// Mend adds to a group's counts what was not counted, unless somebody has checked the group since. It returns how many members it has
// counted.
func Mend(ctx context.Context, q sqlx.ExtContext, store Store, name string, c Count, now time.Time) (Outcome, int, error) {
	w := writer{ctx: ctx, q: q, store: store, now: now}
	n, err := w.mend(name, c)
	if err != nil {
		return w.out, 0, fmt.Errorf("mend group %s: %w", name, err)
	}
	return w.out, n, nil
}

func (w *writer) mend(name string, c Count) (int, error) {
	parts, err := w.store.LockParts(w.ctx, w.q, name)
	if err != nil || len(parts) == 0 {
		return 0, err
	}
	g, found, err := w.store.LockGroup(w.ctx, w.q, name)
	if err != nil || !found || !g.EndedAt.IsZero() || !g.CheckedAt.Equal(c.CheckedAt) {
		return 0, err
	}
	g.CheckedAt = w.now
	sum, was, is := SumOf(parts), c.Counted, c.Counted.mended(c.Rows)
	sum.add(Part{Open: is.Open - was.Open, Done: is.Done - was.Done, Dead: is.Dead - was.Dead, Cancelled: is.Cancelled - was.Cancelled})
	g.OpenParts = sign(sum.Open)
	if !g.Sealed {
		g.OpenParts++
	}
	for i := range parts {
		parts[i] = Part{Number: parts[i].Number}
	}
	parts[0].add(sum)
	if err := w.store.SaveParts(w.ctx, w.q, name, parts, w.now); err != nil {
		return 0, err
	}
	w.out.Events = append(w.out.Events, protocol.Event{At: w.now, Name: protocol.EventMended, Detail: fmt.Sprintf(
		"group %s: %d members whose end or retry was not counted", name, c.Uncounted())})
	return c.Uncounted(), w.save(g)
}

// mended returns the counts by the members' rows. The rows of members that have ended may be purged: then they stay counted.
func (p Part) mended(rows Part) Part {
	lost := p.Open - rows.Open
	p.Open = rows.Open
	if lost < 0 {
		p.Dead = max(0, p.Dead+lost) // retried by a program that does not count
		return p
	}
	for _, c := range []struct {
		counted *int
		rows    int
	}{{&p.Done, rows.Done}, {&p.Dead, rows.Dead}, {&p.Cancelled, rows.Cancelled}} {
		n := min(lost, max(0, c.rows-*c.counted))
		*c.counted += n
		lost -= n
	}
	p.Cancelled += lost // their rows have vanished
	return p
}
