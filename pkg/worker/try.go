package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// state is where a member stands within one transaction.
type state int

const (
	stateSettled state = iota // nothing to run: its outcome is decided
	stateWaiting              // due; its handler has not run
	stateRan                  // its handler has run; the row doesn't say done yet
	stateMarked               // its row says done
)

// member is a hint with its row in one transaction, and what will come of it if that commits.
type member struct {
	hint    *hold.Hint
	row     task.Task
	handler *handler
	payload any
	state   state
	outcome outcome
}

// outcome is what the commit will mean for a hint.
type outcome struct {
	result  result // empty: nothing to count
	settled bool
	at      time.Time // when to look again if not settled
	lane    hold.Lane
	put     *task.Task // the row's state for the index
	letGo   string     // why it is given up without being settled
}

// try is one transaction of a batch and all that it found out; nothing of it outlives a rollback but what blame notes in
// the hints.
type try struct {
	*batch
	ctx         context.Context //nolint:containedctx // Of this one transaction; it ends with it.
	tx          *sqlx.Tx
	changes     *schedule.Tx // what handlers change in tx
	now         time.Time    // of the statement that locked the rows, on the database's clock
	began       time.Time    // when the hints' moment had come, on the local clock
	locked      time.Time    // when its answer came, on the local clock
	members     map[task.ID]*member
	transitions []*member // members whose new row is known before anything runs
	order       []*member // what is to run, by id
	touched     map[task.ID]task.Task
	spent       time.Duration // by handlers
	wrote       bool
	abandoned   bool
	conflict    bool // rows were not as read when marking them done
	watched     bool // a statement ran of which nobody knows whether it ends the transaction
	overEarly   bool // one did
}

// beginning is how long before the hints' moment their transaction begins: that takes about as long, and from then on keeps
// all others from writing to SQLite.
const beginning = 300 * time.Microsecond

// open begins the transaction just before the hints' moment, at it locks the rows that are free, and decides by them alone.
func (t *try) open() error {
	t.sleepUntil(beginning)
	tx, err := t.store.Begin(t.ctx)
	if err != nil {
		return fmt.Errorf("begin batch of %d: %w", len(t.hints), err)
	}
	t.tx, t.changes = tx, schedule.NewTx(tx, t.store).Only(t.Kinds)
	t.sleepUntil(0)
	t.began = time.Now()
	if err := t.lock(); err != nil {
		t.rollback()
		return err
	}
	return nil
}

// sleepUntil sleeps until so long before the hints' moment: the first one's, since the others are due with it, or all of
// them already.
func (t *try) sleepUntil(before time.Duration) {
	t.sleeper.Sleep(min(t.hints[0].LookAt.Sub(t.clock.Now()), hold.TakeAhead) - before)
}

func (t *try) lock() error {
	byID := map[task.ID][]*hold.Hint{}
	ids := make([]task.ID, 0, len(t.hints))
	for _, h := range t.hints {
		if byID[h.ID] == nil {
			ids = append(ids, h.ID)
		}
		byID[h.ID] = append(byID[h.ID], h)
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return bytes.Compare(a[:], b[:]) })
	rows, now, err := t.store.LockFree(t.ctx, t.tx, ids)
	if err != nil {
		return fmt.Errorf("lock batch of %d: %w", len(ids), err)
	}
	t.now, t.locked = now, time.Now()
	for _, row := range rows {
		t.decide(t.first(byID, row.ID), row)
		delete(byID, row.ID)
	}
	return t.absent(byID)
}

// first picks one of the hints of a task; others, of other versions, look again when this one is through.
func (t *try) first(byID map[task.ID][]*hold.Hint, id task.ID) *hold.Hint {
	hs := byID[id]
	for _, other := range hs[1:] {
		other.LookAt = t.clock.Now()
	}
	return hs[0]
}

// absent tells rows that somebody holds from rows that don't exist.
func (t *try) absent(byID map[task.ID][]*hold.Hint) error {
	if len(byID) == 0 {
		return nil
	}
	ids := make([]task.ID, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	rows, err := t.store.Get(t.ctx, t.tx, ids)
	if err != nil {
		return fmt.Errorf("look for %d locked tasks: %w", len(ids), err)
	}
	for _, row := range rows {
		h := t.first(byID, row.ID)
		t.members[row.ID] = &member{hint: h, row: row, outcome: outcome{at: t.clock.Now().Add(hold.RetryInterval), lane: h.Lane}}
		h.Looks++
		delete(byID, row.ID)
	}
	for id := range byID {
		h := t.first(byID, id)
		t.members[id] = &member{
			hint: h, row: task.Task{ID: id, Kind: h.Kind}, outcome: outcome{result: resultMissing, settled: true},
		}
	}
	return nil
}

// at is the moment on the database's clock by which what happens now is stamped: never before the rows were locked.
func (t *try) at() time.Time {
	return t.now.Add(time.Since(t.locked).Truncate(time.Millisecond))
}

func (t *try) rows(ms []*member) []task.Task {
	rows := make([]task.Task, len(ms))
	for i, m := range ms {
		rows[i] = m.row
	}
	return rows
}

func sortByID(ms []*member) {
	slices.SortFunc(ms, func(a, b *member) int { return bytes.Compare(a.row.ID[:], b.row.ID[:]) })
}
