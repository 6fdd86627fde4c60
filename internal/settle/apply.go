package settle

import (
	"log/slog"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Only this file carries verdicts out: judge within the transaction, apply after its commit.

// judge makes the hint a member of the transaction, with the verdict on its locked row.
func (t *transaction) judge(h *hold.Hint, row task.Task, bar protocol.Bar) {
	m := &member{hint: h, row: row, stands: row, handler: t.settler.handlers[row.Kind]}
	m.verdict = decide(facts{
		hint: h, row: row, bar: bar, paused: t.standing.Until(&row), handler: m.handler,
		lockedAt: t.lockedAt, stamp: t.stamp(), now: t.settler.clock.Now(), patience: t.settler.cfg.Patience,
		runsLate: t.runsLate,
	})
	h.Charge, h.Failure = m.verdict.charge, m.verdict.failure
	t.members[row.ID] = m
	switch v := &m.verdict; {
	case v.run:
		m.stage = stageWaiting
	case v.elsewhere:
		h.Looks++
	case v.next != nil:
		m.row = *v.next
		t.transitions = append(t.transitions, m)
		t.notePause(m)
	}
}

// apply carries out the verdicts of a committed transaction.
func (t *transaction) apply() {
	s := t.settler
	for _, row := range s.follow(t.ledger) {
		if m := t.members[row.ID]; m != nil {
			m.row, m.written = row, true
		}
	}
	var stale []task.Task // rows of which the index may have an old entry
	var letters []protocol.DeadLetter
	done := s.clock.Now()
	for id, m := range t.members {
		if m.verdict.put && !m.written {
			stale = append(stale, m.row)
		}
		if m.stage == stageMarked || m.hint.CommitUnknown && m.verdict.result == resultDone {
			s.countFired(m, done)
		}
		if m.verdict.result == resultUnknownKind {
			s.unhandled.count(t.ctx, m.row, done)
		}
		if m.verdict.result == resultDead {
			letters = append(letters, protocol.DeadLetter{
				ID: id, Kind: m.row.Kind, Owner: m.row.Owner, Queue: m.row.Queue, Attempt: m.row.Attempt, Error: m.row.LastError,
			})
			s.log.Error("task dead", slog.String("task_id", id.String()), slog.String("kind", m.row.Kind),
				slog.Int("attempt", m.row.Attempt), slog.String("err", m.row.LastError))
		}
		t.applyToHint(m)
	}
	if len(t.paused) > 0 {
		s.pauses.add(t.paused)
	}
	s.index.Offer(stale)
	t.wakeSuccessors()
	s.letters.Bury(letters)
	if s.cfg.OnEvents != nil {
		t.reportEvents()
	}
}

// follow puts what a committed transaction has written into the index, counts its ticks, and returns the rows.
func (s *Settler) follow(tx *ledger.Tx) []task.Task {
	written := tx.Touched(0)
	s.index.Offer(written)
	s.ticks.Count(tx.Ticks())
	return written
}

// applyToHint records the verdict in the hint.
func (t *transaction) applyToHint(m *member) {
	h, v := m.hint, &m.verdict
	h.Result, h.Settled, h.LookAt, h.Behind = string(v.result), v.settled, v.lookAt, v.behind
	if v.result != "" {
		t.settler.metrics.count(m.row.Kind, v.result)
	}
	if v.far {
		t.settler.metrics.expired.WithLabelValues("far").Inc()
	}
	if v.settled {
		return
	}
	if v.refunded {
		h.Charge = hold.Charge{}
	}
	h.Lane = max(h.Lane, v.lane)
	if h.LookAt.After(h.PatientSince) && v.result == resultEarly {
		h.PatientSince = h.LookAt // patience begins at the hint's moment
	}
}

// firedFrom is the moment from which the task's lag is measured: a pause is no lag, nor the wait for a slot.
func (m *member) firedFrom() time.Time {
	if transition.IsPutOff(m.stands) {
		return m.stands.RunAt
	}
	return transition.FiredFrom(m.row)
}

// countFired observes how late a task fired, and how much of that its queue's limit made it wait. The lag begins when the limit
// let the task run.
func (s *Settler) countFired(m *member, done time.Time) {
	from := m.firedFrom()
	if allowed := rowform.Latest(m.hint.AllowedAt, m.hint.OwnerWait); allowed.After(from) {
		s.metrics.observeLimitWait(m.row.Kind, allowed.Sub(from))
		from = allowed
	}
	s.metrics.observeLag(m.row.Kind, done.Sub(from))
}
