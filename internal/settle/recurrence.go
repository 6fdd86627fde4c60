package settle

import (
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// lockRecurrences locks the recurrences whose newest tasks run or end in this transaction, before handlers lock anything: see
// package recurrence. A member whose recurrence another transaction has locked is held, as one whose row is locked.
//
// A recurrence that allows overlaps must not be locked while a handler runs, for its next task may be run meanwhile. So the next
// task is made first, in a transaction of its own.
func (t *transaction) lockRecurrences() error {
	var ids, tasks []task.ID
	for _, m := range t.members {
		ends := m.stage == stageWaiting || m.verdict.next != nil && m.verdict.result != resultBlocked // the daemon stops a blocked owner's
		if id, _, ok := m.row.Tick(); ok && ends {
			ids, tasks = append(ids, id), append(tasks, m.row.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	locked, err := t.settler.store.LockFreeRecurrences(t.ctx, t.tx, ids, tasks)
	if err != nil {
		return err
	}
	var overlaps recurrence.Progress
	for _, r := range locked {
		t.newest[r.Newest] = true
		if m := t.members[r.Newest]; m.stage == stageWaiting && r.State == task.RecurrenceActive && r.Policy.Overlap == recur.OverlapAllow {
			overlaps.Attempted(m.row, t.lockedAt)
		}
	}
	if !overlaps.Empty() {
		return t.makeOverlaps(&overlaps)
	}
	t.recurrences.Know(locked)
	if len(locked) == len(ids) {
		return nil
	}
	return t.holdLocked(ids)
}

// holdLocked holds the members that are their recurrence's newest task, and whose recurrence another transaction has locked.
func (t *transaction) holdLocked(ids []task.ID) error {
	read, err := t.settler.store.GetRecurrences(t.ctx, t.tx, ids)
	if err != nil {
		return err
	}
	for _, r := range read {
		m := t.members[r.Newest]
		if m == nil || t.newest[r.Newest] {
			continue
		}
		m.stage, m.verdict = stageDecided, verdict{}
		m.verdict.holdUntil(t.settler.clock.Now().Add(hold.RetryInterval), m.hint.Lane)
		m.hint.Looks++
		t.transitions = slices.DeleteFunc(t.transitions, func(other *member) bool { return other == m })
	}
	return nil
}

// makeOverlaps makes the next tasks of recurrences whose newest tasks are about to run.
func (t *transaction) makeOverlaps(p *recurrence.Progress) error {
	if err := t.ledger.Advance(t.ctx, p, t.stamp()); err != nil {
		return fmt.Errorf("make ticks that may overlap: %w", err)
	}
	t.prepared = func() { t.settler.follow(t.ledger) }
	if err := t.ledger.Record(t.ctx); err != nil {
		return err
	}
	return errPrepared
}

// advance makes the next tasks of the recurrences whose newest tasks have ended, with one INSERT for all.
func (t *transaction) advance() error {
	p := &t.recurrences
	for id := range t.newest {
		m := t.members[id]
		switch {
		case m == nil:
		case m.stage == stageMarked:
			p.Ended(m.row, t.lockedAt)
		case m.verdict.next == nil:
		case m.row.State != task.Pending && m.row.Attempt == 0:
			p.Ended(m.row, m.row.UpdatedAt) // skipped, or impossible: nothing has run meanwhile
		case m.row.State != task.Pending:
			p.Ended(m.row, t.lockedAt)
		case m.verdict.result == resultFailed || m.verdict.result == resultSnoozed:
			p.Attempted(m.row, t.lockedAt)
		}
	}
	if p.Empty() {
		return nil
	}
	if t.ledger.ChangedRecurrences() {
		p.Know(nil) // a handler has changed recurrences since they were locked
	}
	if err := t.ledger.Advance(t.ctx, p, t.stamp()); err != nil {
		return fmt.Errorf("make the next ticks: %w", err)
	}
	return nil
}
