package group

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Parts is how many parts a group's counts have: so many transactions can end members of it at once.
const Parts = 8

// Row is a group's row.
type Row struct {
	task.Group // its counts are those of the end, and 0 until then

	Follower  []byte // JSON: see Follower
	OpenParts int
	CheckedAt time.Time // by Mend; zero: never
}

// Part is a part of a group's counts.
type Part struct {
	Number                      int // 1 to Parts
	Open, Done, Dead, Cancelled int
}

func (p *Part) add(d Part) {
	p.Open, p.Done, p.Dead, p.Cancelled = p.Open+d.Open, p.Done+d.Done, p.Dead+d.Dead, p.Cancelled+d.Cancelled
}

// Count adds n members in a state.
func (p *Part) Count(state task.State, n int) {
	switch state {
	case task.Pending:
		p.Open += n
	case task.Done:
		p.Done += n
	case task.Dead:
		p.Dead += n
	case task.Cancelled:
		p.Cancelled += n
	}
}

// SumOf returns the counts of all parts.
func SumOf(parts []Part) (sum Part) {
	for _, p := range parts {
		sum.add(p)
	}
	return sum
}

// Store is what groups need of the database. q is the transaction.
type Store interface {
	// GetGroup reads a group's row without locking it; false if there is none.
	GetGroup(ctx context.Context, q sqlx.QueryerContext, name string) (Row, bool, error)
	// LockGroup is GetGroup, and locks the row.
	LockGroup(ctx context.Context, q sqlx.QueryerContext, name string) (Row, bool, error)
	// SaveGroup writes what changes of a group's row.
	SaveGroup(ctx context.Context, q sqlx.ExtContext, r Row) error
	// LockFreePart locks the first part, from a number on, that nobody else has locked and that has so many open members; false if
	// there is none.
	LockFreePart(ctx context.Context, q sqlx.QueryerContext, name string, from, open int) (Part, bool, error)
	// LockParts locks a group's parts in their order.
	LockParts(ctx context.Context, q sqlx.QueryerContext, name string) ([]Part, error)
	// Parts reads a group's parts without locking them.
	Parts(ctx context.Context, q sqlx.QueryerContext, name string) ([]Part, error)
	// SaveParts writes locked parts.
	SaveParts(ctx context.Context, q sqlx.ExtContext, name string, parts []Part, now time.Time) error
	// LeaveGroup makes tasks members of no group.
	LeaveGroup(ctx context.Context, q sqlx.ExtContext, ids []task.ID) error
	// Insert, InsertLabels and NowAndBlocked are for the follower.
	Insert(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) ([]task.Task, error)
	InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []protocol.LabelRow) error
	NowAndBlocked(ctx context.Context, q sqlx.QueryerContext, owners []string) (time.Time, string, error)
}

// Changes are what a transaction does to groups. The zero Changes are of a transaction without members.
type Changes struct {
	of map[string]*delta
	at time.Time
}

// delta is what a transaction does to one group.
type delta struct {
	counts  Part
	added   bool
	seal    bool
	retried []task.ID // members that were dead, and wait again
}

func (c *Changes) delta(name string) *delta {
	if c.of == nil {
		c.of = map[string]*delta{}
	}
	if c.of[name] == nil {
		c.of[name] = &delta{}
	}
	return c.of[name]
}

// Empty reports whether no group is concerned: then Write does nothing.
func (c *Changes) Empty() bool { return len(c.of) == 0 }

// At is the moment of the latest of the changes; zero if there is none but a seal.
func (c *Changes) At() time.Time { return c.at }

func (c *Changes) note(t *task.Task) {
	if t.UpdatedAt.After(c.at) {
		c.at = t.UpdatedAt
	}
}

// Added notes a new member.
func (c *Changes) Added(t *task.Task) {
	c.note(t)
	d := c.delta(t.Group)
	d.added = true
	d.counts.Count(t.State, 1)
}

// Changed notes a transition of a task, which may be a member.
func (c *Changes) Changed(before, after *task.Task) {
	if before.Group == "" || before.State == after.State {
		return
	}
	c.note(after)
	d := c.delta(before.Group)
	d.counts.Count(before.State, -1)
	d.counts.Count(after.State, 1)
	if after.State == task.Pending {
		d.retried = append(d.retried, after.ID)
	}
}

// Sealed notes that a group is sealed.
func (c *Changes) Sealed(name string) { c.delta(name).seal = true }

// Outcome is what Write and Mend have made.
type Outcome struct {
	Made   []task.Task      // followers, to be put into the index after the commit
	Events []protocol.Event // lines of the history, without an actor
}

// sealed answers a transaction that adds members to a group that somebody has sealed meanwhile: when it runs again, it is told so before.
type sealed string

func (e sealed) Error() string {
	return fmt.Sprintf("add to group %s: %v in between", string(e), task.ErrGroupSealed)
}

func (e sealed) Unwrap() error { return task.ErrGroupSealed }

// Retryable tells ledger.IsRetryable that the whole transaction may be run once more.
func (e sealed) Retryable() bool { return true }

// Write writes the counts. The rows of the tasks must have been written before. Of a group that was forgotten, nothing is counted.
func (c *Changes) Write(ctx context.Context, q sqlx.ExtContext, store Store, now time.Time) (Outcome, error) {
	w := writer{ctx: ctx, q: q, store: store, now: now}
	for _, name := range slices.Sorted(maps.Keys(c.of)) {
		if err := w.write(name, c.of[name]); err != nil {
			return w.out, fmt.Errorf("count members of group %s: %w", name, err)
		}
	}
	return w.out, nil
}

// writer is one call of Write or Mend.
type writer struct {
	ctx   context.Context //nolint:containedctx // Ends with the call.
	q     sqlx.ExtContext
	store Store
	now   time.Time
	out   Outcome
}

func (w *writer) write(name string, d *delta) error {
	parts, err := w.lock(name, d.counts.Open)
	if err != nil || len(parts) == 0 {
		return err
	}
	parts, filled := d.counts.into(parts)
	if filled == 0 && !d.added && !d.seal {
		return w.store.SaveParts(w.ctx, w.q, name, parts, w.now)
	}
	g, found, err := w.store.LockGroup(w.ctx, w.q, name)
	switch {
	case err != nil || !found:
		return err
	case g.Sealed && d.added:
		return sealed(name)
	case !g.EndedAt.IsZero():
		return w.store.LeaveGroup(w.ctx, w.q, d.retried)
	}
	if err := w.store.SaveParts(w.ctx, w.q, name, parts, w.now); err != nil {
		return err
	}
	if d.seal && !g.Sealed {
		g.Sealed = true
		g.OpenParts--
	}
	g.OpenParts += filled
	return w.save(g)
}

// save writes the group's row, and ends the group if that was the last member.
func (w *writer) save(g Row) error {
	if g.OpenParts <= 0 {
		if err := w.end(&g); err != nil {
			return err
		}
	}
	return w.store.SaveGroup(w.ctx, w.q, g)
}

// lock locks the parts into which a change of the number of open members goes. A part without members of its own is as good as any
// other; of members that are added at once, each part gets some, so that they can end side by side.
func (w *writer) lock(name string, open int) ([]Part, error) {
	from, need := 1, 0
	switch {
	case open >= Parts:
		return w.store.LockParts(w.ctx, w.q, name)
	case open > 0:
		from = 1 + rand.IntN(Parts) //nolint:gosec // Spreads members, guards nothing.
	default:
		need = -open
	}
	p, found, err := w.store.LockFreePart(w.ctx, w.q, name, from, need)
	if err != nil || found {
		return []Part{p}, err
	}
	return w.store.LockParts(w.ctx, w.q, name)
}

// into adds the counts to locked parts. It returns the parts that change, and how many more of them have open members.
func (p Part) into(parts []Part) (changed []Part, filled int) {
	open := p.Open
	p.Open = 0
	for i, was := range parts {
		now := was
		if i == 0 {
			now.add(p)
		}
		share := max(open, -was.Open) // takes no more than there is
		if open > 0 {
			share = open / (len(parts) - i)
		}
		now.Open += share
		open -= share
		if now != was {
			changed = append(changed, now)
		}
		filled += sign(now.Open) - sign(was.Open)
	}
	return changed, filled
}

// sign is 1 for a part with open members.
func sign(open int) int { return min(max(open, 0), 1) }
