package worker

import (
	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// decide says what is to become of a hint, by its locked row alone: the hint only told where to look.
func (t *try) decide(h *hold.Hint, row task.Task) {
	m := &member{hint: h, row: row}
	t.members[row.ID] = m
	switch {
	case row.State != task.Pending:
		t.ended(m)
	case row.Impossible() != nil:
		t.transition(m, row.Discard(row.Impossible(), t.at()), resultDead)
	case row.RunAt.After(t.now):
		t.later(m)
	case row.DueAt.After(t.now):
		t.transition(m, row.Promised(t.at()), resultEarly)
	default:
		t.due(m)
	}
}

// ended drops a finished task from the index, where a lost drop may have left it.
func (t *try) ended(m *member) {
	m.outcome = outcome{result: resultAlreadyDone, settled: true, put: &m.row}
	if m.hint.CommitUnknown && m.row.State == task.Done {
		m.outcome.result = resultDone // the commit whose answer was lost
	}
}

// later keeps the hint of a task that isn't due. It is never put back into the index under the version that the row
// still has: the acknowledgement of the claim that sent it here may come after and remove it. Only a newer version is
// put, and only a wait that is worth it is waited for; what is farther off is left to the daemon's look-ahead.
func (t *try) later(m *member) {
	wait := m.row.RunAt.Sub(t.now)
	switch {
	case task.WindowedVersion(m.row.Version) != task.WindowedVersion(m.hint.Version):
		m.outcome = outcome{result: resultStale, settled: true, put: &m.row}
	case wait > t.Patience:
		m.outcome = outcome{result: resultEarly, settled: true, letGo: "far"}
	default:
		m.outcome = outcome{result: resultEarly, at: t.clock.Now().Add(wait), lane: m.hint.Lane}
	}
}

// due sorts out what must not run in this transaction; all else waits for its turn.
func (t *try) due(m *member) {
	m.handler = t.mux.handlers[m.row.Kind]
	if m.handler == nil {
		t.transition(m, m.row.Await(t.at()), resultUnknownKind)
		return
	}
	if m.hint.Failure.Err != nil && m.hint.Failure.Version == m.row.Version {
		row, result := afterFailure(m.hint, m.row, m.handler.info.Backoff, t.at())
		t.transition(m, row, result)
		return
	}
	m.hint.Failure.Err = nil
	if m.hint.Charge.Version == m.row.Version || chargedBefore(m.hint, m.row) {
		m.hint.Charge.State = hold.Charged // by a commit whose answer was lost, or by another worker
	}
	if exhausted(m.hint, m.row) {
		t.transition(m, m.row.Discard(errKilled, t.at()), resultDead)
		return
	}
	if late, skip := m.row.Late(m.handler.info.CatchUpWindow, t.now); skip {
		t.transition(m, m.row.Skip(late, m.handler.info.CatchUpWindow, t.at()), resultSkipped)
		return
	}
	if l := laneOf(m.hint, m.row, m.handler.form == formOutside || m.handler.slow.Load()); l > m.hint.Lane {
		m.outcome = outcome{at: t.clock.Now(), lane: l}
		return
	}
	payload, err := m.handler.decode(m.row)
	if err != nil { // a worker of another version may understand it
		m.hint.Failure.Err = err
		t.logFailure(m, err)
		row, result := afterFailure(m.hint, m.row, m.handler.info.Backoff, t.at())
		t.transition(m, row, result)
		return
	}
	m.payload, m.state = payload, stateWaiting
}

// transition notes a new row that doesn't depend on a handler's run in this transaction.
func (t *try) transition(m *member, row task.Task, r result) {
	m.row = row
	m.outcome = outcome{result: r, settled: true, put: &m.row}
	t.transitions = append(t.transitions, m)
}

// save writes the new rows of members.
func (t *try) save(ms ...*member) error {
	if len(ms) == 0 {
		return nil
	}
	t.wrote = true
	return t.store.Save(t.ctx, t.tx, t.rows(ms))
}

// charge counts an attempt, in a transaction of its own, for each suspect that is about to run: if the process dies of
// it, the charge stands.
func (t *try) charge() error {
	var suspects []*member
	for _, m := range t.members {
		if m.state == stateWaiting && m.hint.Suspect && m.hint.Charge.State != hold.Charged {
			suspects = append(suspects, m)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	sortByID(suspects)
	for _, m := range suspects {
		m.row = chargeBefore(m.row, t.holder, t.at())
	}
	if err := t.save(suspects...); err != nil {
		return err
	}
	for _, m := range suspects {
		m.hint.Charge.Version = m.row.Version // known before the commit, whose answer may be lost
	}
	if err := t.tx.Commit(); err != nil {
		return err
	}
	for _, m := range suspects {
		m.hint.Charge.State = hold.Charged
	}
	return errAgain
}
