package settle

import (
	"log/slog"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// maxHeldBehind is how long a hint is held for an earlier task that is due: most run at this moment. Then the task's row gets a later next
// try, so that the hint keeps no offset from being committed.
const maxHeldBehind = 2 * time.Second

// keepOrder takes out of the batch the members whose order key has an earlier pending task that does not run, or end, in this transaction:
// race 15. The rows of the members are locked, and the earlier tasks are read without locks.
func (t *transaction) keepOrder() error {
	waiting := map[string][]*member{}
	var of, except []task.ID
	for _, m := range t.members {
		if m.stage == stageWaiting && m.row.OrderKey != "" {
			if len(waiting[m.row.OrderKey]) == 0 {
				of = append(of, m.row.ID)
			}
			waiting[m.row.OrderKey] = append(waiting[m.row.OrderKey], m)
		}
	}
	if len(of) == 0 {
		return nil
	}
	t.succeeded = map[task.ID]bool{}
	for _, m := range t.members {
		ends := m.verdict.next != nil && m.verdict.next.State != task.Pending
		if (m.stage == stageWaiting || ends) && len(waiting[m.row.OrderKey]) > 0 {
			except = append(except, m.row.ID)
			t.succeeded[m.row.ID] = true
		}
	}
	heads, err := t.settler.store.Heads(t.ctx, t.tx, of, except)
	if err != nil {
		return err
	}
	for _, head := range heads {
		for _, m := range waiting[head.OrderKey] {
			if transition.IsBefore(head.Task, m.row) {
				t.waitBehind(m, head)
			}
		}
		if transition.WaitsBehind(head.Task) {
			t.successors = append(t.successors, head.Task)
		}
	}
	for _, members := range waiting {
		for _, m := range members {
			t.keepSlots(m)
		}
	}
	return nil
}

// keepSlots takes a member out of the batch that waits behind nobody any more, but has no slot of its owner.
func (t *transaction) keepSlots(m *member) {
	switch {
	case m.stage != stageWaiting || m.charged():
	case m.hint.OnlyLook:
		t.leave(m, task.ID{}) // it comes again for one
	case m.hint.Far:
		t.putOff(m, transition.PutOffToSlot(m.row, m.hint.OwnerSlot, t.stamp()), resultLimited)
		t.block(m)
	}
}

// putOff settles a member that does not run by a transition of its row.
func (t *transaction) putOff(m *member, row task.Task, r Result) {
	m.stage, m.verdict, m.row = stageDecided, verdict{}, row
	m.verdict.change(row, r)
	t.transitions = append(t.transitions, m)
}

// waitBehind has a member wait for the head of its order key.
func (t *transaction) waitBehind(m *member, head protocol.Head) {
	waited := t.settler.clock.Now().Sub(m.hint.PatientSince)
	isDue := !head.RunAt.After(t.lockedAt) || transition.WaitsBehind(head.Task) // it is woken
	if m.charged() || isDue && waited <= maxHeldBehind {
		t.leave(m, head.ID)
		return
	}
	t.putOff(m, transition.WaitBehind(m.row, head, t.stamp()), resultBehind)
}

// leave holds a member that does not run in this transaction: for an earlier task of its order key, unless head is zero. A member that is
// left leaves all later ones of its key behind.
func (t *transaction) leave(m *member, head task.ID) {
	now := t.settler.clock.Now()
	m.stage, m.verdict = stageDecided, verdict{}
	m.verdict.holdUntil(now, m.hint.Lane)
	if !head.IsZero() {
		m.verdict.holdUntil(now.Add(hold.RetryInterval), m.hint.Lane)
		m.verdict.result, m.verdict.behind = resultBehind, head
	}
	t.block(m)
	if m.charged() {
		t.unrun = append(t.unrun, m)
	}
}

// charged reports whether the member is a suspect whose attempt was charged beforehand.
func (m *member) charged() bool { return m.hint.Suspect && m.hint.Charge.State == hold.Charged }

// block has later members of the member's order key wait for it.
func (t *transaction) block(m *member) {
	key := m.row.OrderKey
	if first, blocked := t.blocked[key]; key == "" || blocked && transition.IsBefore(first, m.row) {
		return
	}
	if t.blocked == nil {
		t.blocked = map[string]task.Task{}
	}
	t.blocked[key] = m.row
}

// headOf returns the earlier member of m's order key that does not end in this transaction; zero for none.
func (t *transaction) headOf(m *member) task.ID {
	if first, blocked := t.blocked[m.row.OrderKey]; blocked && transition.IsBefore(first, m.row) {
		return first.ID
	}
	return task.ID{}
}

// blockBehindFailed has later members wait for those of a call that have failed, or want to run again.
func (t *transaction) blockBehindFailed(call []*member) {
	for _, m := range call {
		if m.verdict.next != nil && m.verdict.next.State == task.Pending {
			t.block(m)
		}
	}
}

// follows reports whether one of the members before comes first by the order key.
func follows(m *member, before map[string]bool) bool {
	key := m.row.OrderKey
	if key == "" {
		return false
	}
	seen := before[key]
	before[key] = true
	return seen
}

// wakeSuccessors gives a try at once to the tasks that wait behind others and are the first of their order keys now. Their next try would
// come by itself, but later. keepOrder has found those of members that ran: only for other ends, as by a handler's cancel, or
// of a task that was skipped or is dead, the heads are read once more.
func (t *transaction) wakeSuccessors() {
	var ids []task.ID
	for _, next := range t.successors {
		if first, blocked := t.blocked[next.OrderKey]; !blocked || transition.IsBefore(next, first) {
			ids = append(ids, next.ID)
		}
	}
	s := t.settler
	woken, err := ledger.WakeBehind(t.ctx, s.store, s.cfg.Hooks, t.ledger, t.succeeded, ids)
	switch {
	case err != nil:
		s.log.DebugContext(t.ctx, "successors not woken", slog.Any("err", err))
	case woken != nil:
		s.follow(woken)
	}
}
