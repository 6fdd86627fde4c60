package group

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
)

// Mend compares the counts of a group with its members' rows, and puts right what differs: programs that don't count may have ended
// members, retried them, or deleted their rows. count counts the rows, once all parts are locked: all that our transactions have
// counted is committed then. Mend returns how many members it has counted.
func Mend(ctx context.Context, q sqlx.ExtContext, store Store, name string, now time.Time,
	count func(ctx context.Context, q sqlx.QueryerContext, name string) (Part, error),
) (Outcome, int, error) {
	w := writer{ctx: ctx, q: q, store: store, now: now}
	n, err := w.mend(name, count)
	if err != nil {
		return w.out, 0, fmt.Errorf("mend group %s: %w", name, err)
	}
	return w.out, n, nil
}

func (w *writer) mend(name string, count func(ctx context.Context, q sqlx.QueryerContext, name string) (Part, error)) (int, error) {
	parts, err := w.store.LockParts(w.ctx, w.q, name)
	if err != nil || len(parts) == 0 {
		return 0, err
	}
	g, found, err := w.store.LockGroup(w.ctx, w.q, name)
	if err != nil || !found || !g.EndedAt.IsZero() {
		return 0, err
	}
	rows, err := count(w.ctx, w.q, name)
	if err != nil {
		return 0, err
	}
	g.CheckedAt = w.now
	sum := SumOf(parts)
	n := max(sum.Open-rows.Open, rows.Open-sum.Open)
	if n == 0 {
		return 0, w.store.SaveGroup(w.ctx, w.q, g)
	}
	sum = sum.mended(rows)
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
		"group %s: %d members whose end or retry was not counted", name, n)})
	return n, w.save(g)
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
