package settle

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// pauses are those that a worker knows: what it has read last, and what its handlers have made since. It is safe for
// concurrent use.
type pauses struct {
	read, own atomic.Pointer[protocol.Pauses] // never changed

	mu   sync.Mutex
	made []madePause // those of own
}

// madePause is a pause with the local time of its commit.
type madePause struct {
	protocol.Pause

	at time.Time
}

// until returns when the last pause ends that the task is one of; zero if it is paused by none.
func (p *pauses) until(row *task.Task) (until time.Time) {
	for _, known := range [...]*protocol.Pauses{p.own.Load(), p.read.Load()} {
		if known != nil {
			until = rowform.Latest(until, known.Until(row))
		}
	}
	return until
}

// set takes what was read from a moment of the local clock on.
func (p *pauses) set(read []protocol.Pause, from time.Time) {
	known := protocol.PausesOf(read)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read.Store(&known)
	p.made = slices.DeleteFunc(p.made, func(m madePause) bool { return m.at.Before(from) })
	p.join()
}

// add takes what was committed just now.
func (p *pauses) add(made []protocol.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.made = slices.DeleteFunc(p.made, func(m madePause) bool { return m.Until.Before(now.Add(-time.Minute)) }) // clocks may be apart
	for _, m := range made {
		p.made = append(p.made, madePause{m, now})
	}
	p.join()
}

func (p *pauses) join() {
	own := make([]protocol.Pause, len(p.made))
	for i, m := range p.made {
		own[i] = m.Pause
	}
	known := protocol.PausesOf(own)
	p.own.Store(&known)
}

// SetPauses has due tasks of these pauses put off to the pauses' ends. They were read from a moment of the local clock on:
// what handlers have paused since then holds too.
func (s *Settler) SetPauses(read []protocol.Pause, from time.Time) { s.pauses.set(read, from) }

// pausesOf returns the pauses that the locked rows are of. Only MySQL says so: a worker whose reads fail knows pauses that were
// resumed since. It is asked where the worker knows of one.
func (t *transaction) pausesOf(rows []task.Task) (protocol.Pauses, error) {
	var owners []string
	for i := range rows {
		if rows[i].State == task.Pending && !rows[i].RunAt.After(t.lockedAt) && !t.settler.pauses.until(&rows[i]).IsZero() {
			owners = append(owners, rows[i].Owner)
		}
	}
	if len(owners) == 0 {
		return nil, nil
	}
	return t.settler.store.PausesOf(t.ctx, t.tx, owners)
}

// pausedHere reports whether a handler of this transaction has paused what the row is one of.
func (t *transaction) pausedHere(row *task.Task) bool {
	return slices.ContainsFunc(t.paused, func(p protocol.Pause) bool { return p.Matches(row) })
}

// notePause notes that the member's handler has paused its key. The other tasks of the key that have not run do not run in this
// transaction, and the next one puts them off.
func (t *transaction) notePause(m *member) {
	if m.verdict.result != resultSnoozed {
		return
	}
	if snooze, _ := errors.AsType[SnoozeError](m.hint.Failure.Err); !snooze.PausesKey {
		return
	}
	of := protocol.PauseOf{Queue: m.row.Queue, Owner: m.row.Owner}
	t.paused = append(t.paused, protocol.Pause{PauseOf: of, Until: m.row.RunAt, Made: m.row.UpdatedAt, Actor: protocol.ActorWorker})
}

// savePauses writes what handlers have paused, in the order in which all transactions do.
func (t *transaction) savePauses() error {
	if len(t.paused) == 0 {
		return nil
	}
	slices.SortFunc(t.paused, func(a, b protocol.Pause) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Queue, b.Queue), a.Until.Compare(b.Until))
	})
	return t.settler.store.PutPauses(t.ctx, t.tx, t.paused)
}
