// Package recurrence makes the task of a recurrence's next tick in the transaction in which the task before it ends.
//
// It promises that a tick gets at most one task, and that an active recurrence whose task ends in one of our transactions has
// another task, or is over, when that transaction commits. A task that ends elsewhere, as by SQL of somebody else, leaves its
// recurrence behind until the daemon's sweep meets it. It never decides when a tick is: package recur does.
//
// # Order of locks
//
// The tasks' rows are locked first, then the recurrences', then whatever the service or a handler locks. Two transactions that
// take them in another order would wait for each other, by the thousand at eight in the morning. Whoever knows only the
// recurrence reads it without a lock, locks its newest task (a pause or a stop: all its pending ones), locks the recurrence, and
// begins anew if the newest task is another by then.
//
// The locks keep transactions from failing. They decide nothing: a row is written only over the row that was read.
//
// A pause or a stop then lists the pending tasks again, and locks without waiting what was made meanwhile. RunRecurrence makes a task
// without the recurrence's lock, which a worker holds for as long as a handler runs: it shares the entry of the recurrence's name in
// the index until it commits, and a pause or a stop locks that entry before it lists again.
package recurrence

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what changes of recurrences need of the database.
type Store interface {
	// GetRecurrences reads rows without locking them, and returns those that exist.
	GetRecurrences(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Recurrence, error)
	// LockRecurrences locks rows in id order, and returns those that exist.
	LockRecurrences(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Recurrence, error)
	// SaveRecurrences writes the progress of rows that are as before.
	SaveRecurrences(ctx context.Context, q sqlx.ExtContext, before, after []task.Recurrence) error
	// Insert writes new rows, and returns for each the row that stands: its own, or the one that has its key.
	Insert(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) ([]task.Task, error)
}

// Progress is what the tasks of a transaction do to their recurrences. The zero Progress is of tasks without any.
type Progress struct {
	steps []step
	ids   []task.ID // of the recurrences
	known []task.Recurrence
	since time.Time // see MakeAfter
	made  []task.Task
	notes []protocol.Event
	ticks []Tick
}

// step is what became of a task.
type step struct {
	recurrence, task task.ID
	began            time.Time // of the first attempt, as the transaction knows it; zero: there was none
	ended            bool
}

// Tick counts ticks of a kind.
type Tick struct {
	Kind    string
	Outcome string // OutcomeMade and its kin
	N       int64
}

// The outcomes of ticks.
const (
	OutcomeMade     = "made"
	OutcomeCaughtUp = "caught_up"
	OutcomeSkipped  = "skipped"
)

// Ended notes a task that ends in the transaction. Began is when its first attempt began: zero for a task that was never tried.
func (p *Progress) Ended(t task.Task, began time.Time) { p.add(t, began, true) }

// Attempted notes a task that was tried at this moment, failed or snoozed, and goes on.
func (p *Progress) Attempted(t task.Task, began time.Time) { p.add(t, began, false) }

// Lost notes that the newest task of a recurrence has ended elsewhere, or has no row any more.
func (p *Progress) Lost(r task.Recurrence) {
	p.steps = append(p.steps, step{recurrence: r.ID, task: r.Newest, ended: true})
	p.ids = append(p.ids, r.ID)
}

func (p *Progress) add(t task.Task, began time.Time, ended bool) {
	id, _, ok := t.Tick()
	if !ok {
		return
	}
	p.steps = append(p.steps, step{recurrence: id, task: t.ID, began: began, ended: ended})
	p.ids = append(p.ids, id)
}

// Know gives Write the rows of all recurrences that are concerned, as the transaction has locked them: it does not read them. Nil
// has it read them.
func (p *Progress) Know(locked []task.Recurrence) { p.known = locked }

// MakeAfter has Write make tasks of a later moment than this one, whatever the time is: the database's clock may have been set back
// since.
func (p *Progress) MakeAfter(t time.Time) { p.since = t }

// Empty reports whether no recurrence is concerned: then Write does nothing.
func (p *Progress) Empty() bool { return len(p.steps) == 0 }

// Made returns the tasks that Write has made, to be put into the index after the commit.
func (p *Progress) Made() []task.Task { return p.made }

// Events returns the lines of the history, without an actor.
func (p *Progress) Events() []protocol.Event { return p.notes }

// Ticks returns what is to be counted after the commit.
func (p *Progress) Ticks() []Tick { return p.ticks }

// Write locks the recurrences whose newest tasks were noted, and makes their next tasks: in one INSERT and one UPDATE for a batch.
// The tasks' own rows must be locked.
func (p *Progress) Write(ctx context.Context, q sqlx.ExtContext, store Store, now time.Time) error {
	if p.Empty() {
		return nil
	}
	locked := p.known
	if locked == nil {
		var err error
		if locked, err = p.lock(ctx, q, store); err != nil {
			return err
		}
	}
	rows := make(map[task.ID]task.Recurrence, len(locked))
	for _, r := range locked {
		rows[r.ID] = r
	}
	var pairs []pair
	for _, s := range p.steps {
		r, ok := rows[s.recurrence]
		if !ok || r.Newest != s.task {
			continue // purged, or a tick that a later one has overlapped
		}
		next := pair{before: r}
		next.after, next.tick = s.of(r, now)
		pairs = append(pairs, next)
		delete(rows, s.recurrence)
	}
	if err := p.insert(ctx, q, store, pairs, now); err != nil {
		return err
	}
	before, after := make([]task.Recurrence, len(pairs)), make([]task.Recurrence, len(pairs))
	for i, r := range pairs {
		p.note(r.before, r.after)
		before[i], after[i] = r.before, r.after
	}
	return store.SaveRecurrences(ctx, q, before, after)
}

// lock locks the recurrences of tasks that are the newest ones. Those of others are let be, since a worker has a recurrence locked for
// as long as it runs its newest task. A task whose row is locked does not become the newest one meanwhile.
func (p *Progress) lock(ctx context.Context, q sqlx.ExtContext, store Store) ([]task.Recurrence, error) {
	read, err := store.GetRecurrences(ctx, q, p.ids)
	if err != nil {
		return nil, err
	}
	ended := make(map[task.ID]bool, len(p.steps))
	for _, s := range p.steps {
		ended[s.task] = true
	}
	var ids []task.ID
	for _, r := range read {
		if ended[r.Newest] {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return store.LockRecurrences(ctx, q, ids)
}

// pair is a recurrence before and after a step, with the task that the step makes.
type pair struct {
	before, after task.Recurrence
	tick          task.Task // without an id: none
}

// of is the recurrence's transition.
func (s step) of(r task.Recurrence, now time.Time) (task.Recurrence, task.Task) {
	if !r.BeganAt.IsZero() {
		s.began = r.BeganAt
	}
	if s.ended {
		return transition.NewestEnded(r, s.began, now)
	}
	return transition.NewestAttempted(r, now)
}

// insert writes the new tasks. If a tick has a row already, as after a restore of one of the tables, a pending one is the
// recurrence's newest task; one that has ended is passed over.
func (p *Progress) insert(ctx context.Context, q sqlx.ExtContext, store Store, pairs []pair, now time.Time) error {
	var ticks []task.Task
	of := map[task.ID]*pair{}
	for i := range pairs {
		if tick := pairs[i].tick; !tick.ID.IsZero() {
			if !tick.CreatedAt.After(p.since) {
				tick.CreatedAt = p.since.Add(time.Millisecond)
			}
			ticks = append(ticks, tick)
			of[tick.ID] = &pairs[i]
		}
	}
	if len(ticks) == 0 {
		return nil
	}
	stands, err := store.Insert(ctx, q, ticks)
	if err != nil {
		return fmt.Errorf("make %d ticks: %w", len(ticks), err)
	}
	ended := false
	for i, row := range stands {
		next := of[ticks[i].ID]
		next.tick = task.Task{}
		if row.State == task.Pending {
			next.after.Newest = row.ID
			p.made = append(p.made, row)
			continue
		}
		next.after, next.tick = transition.NewestTaken(next.after, now)
		ended = true
	}
	if ended {
		return p.insert(ctx, q, store, pairs, now)
	}
	return nil
}

// note keeps the line of a transition beyond a plain tick, and what is counted.
func (p *Progress) note(before, after task.Recurrence) {
	for _, t := range []Tick{
		{after.Kind, OutcomeMade, after.Made - before.Made - (after.CaughtUp - before.CaughtUp)},
		{after.Kind, OutcomeCaughtUp, after.CaughtUp - before.CaughtUp},
		{after.Kind, OutcomeSkipped, after.Skipped - before.Skipped},
	} {
		if t.N > 0 {
			p.ticks = append(p.ticks, t)
		}
	}
	if e, ok := transition.Recurred(before, after); ok {
		p.notes = append(p.notes, e)
	}
}
