package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Rows are what a transaction's changes need of the store. q is the transaction.
type Rows interface {
	recurrence.Store
	group.Store
	// Now reads the database's clock.
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	// Get reads rows without locking.
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	// Write writes transitions of rows, each over the version before it.
	Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error
	// Record appends lines to the history; a nil q means a transaction of its own.
	Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error
}

// Tx is one try of a transaction, and the list of what it does. Like the connection under it, it is for one goroutine at a time.
type Tx struct {
	q     sqlx.ExtContext
	rows  Rows
	actor string
	now   time.Time
	list  []entry
	groups
	err error // the first failure in the list

	changedRecurrences bool
	busy               bool // its connection may be
}

// entry is one step of a transaction.
type entry struct {
	made     []task.Task         // new rows
	changes  []transition.Change // of one write
	events   []protocol.Event    // about them, or about something else
	ticks    []recurrence.Tick
	then     func()      // follows the commit
	recorded bool        // the transaction itself has written the lines about all entries before
	failure  error       // after which the transaction must not commit
	members  []task.Task // new ones of groups
	seals    string      // a group
}

// NewTx makes the list of a transaction that its caller ends. The actor is that of the lines.
func NewTx(q sqlx.ExtContext, rows Rows, actor string) *Tx {
	return &Tx{q: q, rows: rows, actor: actor}
}

// As names another actor.
func (t *Tx) As(actor string) { t.actor = actor }

// Actor is who makes the changes.
func (t *Tx) Actor() string { return t.actor }

// Now is the moment of the transaction on the database's clock, exact to the millisecond: read at the first call, unless
// SetNow has set it, and the same from then on.
func (t *Tx) Now(ctx context.Context) (time.Time, error) {
	if !t.now.IsZero() {
		return t.now, nil
	}
	now, err := t.rows.Now(ctx, t.q)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	t.now = now
	return now, nil
}

// SetNow sets the moment, if it is not known yet, to one that a statement of the transaction has read.
func (t *Tx) SetNow(now time.Time) {
	if t.now.IsZero() {
		t.now = now
	}
}

// Moment is the moment that Now has read; zero before.
func (t *Tx) Moment() time.Time { return t.now }

// Write writes transitions of locked rows, and the next tasks of recurrences whose tasks they end.
func (t *Tx) Write(ctx context.Context, changes []transition.Change) error {
	if len(changes) == 0 {
		return nil
	}
	lines := make([]protocol.Event, len(changes))
	for i := range changes {
		lines[i] = transition.Changed(changes[i].Before, changes[i].After)
	}
	if err := t.Save(ctx, changes, lines); err != nil {
		return err
	}
	var p recurrence.Progress
	for i := range changes {
		if c := &changes[i]; c.Before.State == task.Pending && c.After.State != task.Pending {
			p.Ended(c.After, c.After.UpdatedAt)
		}
	}
	return t.Advance(ctx, &p, t.now)
}

// Save is Write for a caller that says the lines, and makes the next tasks itself.
func (t *Tx) Save(ctx context.Context, changes []transition.Change, lines []protocol.Event) error {
	if err := t.rows.Write(ctx, t.q, changes); err != nil {
		return t.Fail(err)
	}
	t.list = append(t.list, entry{changes: changes, events: lines})
	return t.countAtOnce(ctx)
}

// Advance makes the next tasks of recurrences. The tasks' own rows must be locked.
func (t *Tx) Advance(ctx context.Context, p *recurrence.Progress, now time.Time) error {
	if p.Empty() {
		return nil
	}
	if err := p.Write(ctx, t.q, t.rows, now); err != nil {
		return t.Fail(err)
	}
	t.changedRecurrences = true
	t.list = append(t.list, entry{made: p.Made(), events: p.Events(), ticks: p.Ticks()})
	return nil
}

// Inserted adds rows that the transaction has inserted, with the ticks that they are.
func (t *Tx) Inserted(rows []task.Task, ticks ...recurrence.Tick) {
	if len(rows) > 0 {
		t.list = append(t.list, entry{made: rows, ticks: ticks})
	}
}

// Note adds events that are no changes of tasks' rows.
func (t *Tx) Note(events ...protocol.Event) { t.list = append(t.list, entry{events: events}) }

// Then has fn called after the commit. It must not wait.
func (t *Tx) Then(fn func()) { t.list = append(t.list, entry{then: fn}) }

// NoteRecurrence is Note of a change of a recurrence.
func (t *Tx) NoteRecurrence(e protocol.Event) {
	t.changedRecurrences = true
	t.Note(e)
}

// ChangedRecurrences reports whether this try has changed recurrences.
func (t *Tx) ChangedRecurrences() bool { return t.changedRecurrences }

// Fail adds a failure after which the transaction must not commit, though its caller may pass over the error. It returns the error.
func (t *Tx) Fail(err error) error {
	t.list = append(t.list, entry{failure: err})
	if t.err == nil {
		t.err = err
	}
	return err
}

// LeaveBusy says that somebody may keep the connection busy: the transaction ends with its context, for a ROLLBACK would wait.
func (t *Tx) LeaveBusy() { t.busy = true }

func (t *Tx) leftBusy() bool { return t != nil && t.busy }

// Err is the first failure; nil while the try is sound.
func (t *Tx) Err() error { return t.err }

// Mark is a place in the list, for Rewind: take it where a savepoint is set.
func (t *Tx) Mark() int { return len(t.list) }

// Rewind forgets everything since the mark; call it after a ROLLBACK TO the savepoint has succeeded, or the server has taken back the
// one statement since.
func (t *Tx) Rewind(mark int) {
	t.list, t.err = t.list[:mark], nil
	t.counted = min(t.counted, mark)
	for _, e := range t.list {
		if e.failure != nil {
			t.err = e.failure
			return
		}
	}
}

// Written are the versions that were written since the mark, in their order.
func (t *Tx) Written(mark int) iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for _, e := range t.list[mark:] {
			for i := range e.made {
				if !yield(&e.made[i]) {
					return
				}
			}
			for i := range e.changes {
				if !yield(&e.changes[i].After) {
					return
				}
			}
		}
	}
}

// Touched returns the last version of each task that was written since the mark, in the order of the first write.
func (t *Tx) Touched(mark int) []task.Task {
	n := 0
	for _, e := range t.list[mark:] {
		n += len(e.made) + len(e.changes)
	}
	if n == 0 {
		return nil
	}
	at, touched := make(map[task.ID]int, n), make([]task.Task, 0, n)
	for row := range t.Written(mark) {
		i, seen := at[row.ID]
		switch {
		case !seen:
			at[row.ID] = len(touched)
			touched = append(touched, *row)
		case row.Version >= touched[i].Version:
			touched[i] = *row
		}
	}
	return touched
}

// Left returns the rows as they were of tasks that went to another queue. Their entries of before must leave the index.
func (t *Tx) Left() (left []task.Task) {
	for _, e := range t.list {
		for _, c := range e.changes {
			if c.Before.Queue != c.After.Queue {
				left = append(left, c.Before)
			}
		}
	}
	return left
}

// Events returns the lines of the history that the transaction has not written itself, in their order.
func (t *Tx) Events() (events []protocol.Event) {
	from := 0
	for i, e := range t.list {
		if e.recorded {
			from = i
		}
	}
	for _, e := range t.list[from:] {
		events = append(events, e.events...)
	}
	for i := range events {
		events[i].Actor = t.actor
	}
	return events
}

// Ticks returns the ticks of recurrences that the transaction has made or skipped.
func (t *Tx) Ticks() (ticks []recurrence.Tick) {
	for _, e := range t.list {
		ticks = append(ticks, e.ticks...)
	}
	return ticks
}

// Record writes the lines so far in the transaction itself, instead of after its commit. It costs a statement.
func (t *Tx) Record(ctx context.Context) error {
	events := t.Events()
	if len(events) == 0 {
		return nil
	}
	if err := t.rows.Record(ctx, t.q, events); err != nil {
		return t.Fail(fmt.Errorf("record %d lines of the history: %w", len(events), err))
	}
	t.list = append(t.list, entry{recorded: true})
	return nil
}

// CheckUndone reads the rows that this try has touched, and answers ErrUnfollowed if one is of another version: a statement that was not
// followed has gone back to a savepoint.
func (t *Tx) CheckUndone(ctx context.Context) error {
	touched := t.Touched(0)
	if len(touched) == 0 {
		return nil
	}
	rows, err := t.rows.Get(ctx, t.q, protocol.IDs(touched))
	if err != nil {
		return err
	}
	versions := make(map[task.ID]int64, len(rows))
	for _, row := range rows {
		versions[row.ID] = row.Version
	}
	for _, row := range touched {
		if versions[row.ID] != row.Version {
			return fmt.Errorf("%w: task %s", ErrUnfollowed, row.ID)
		}
	}
	return nil
}
