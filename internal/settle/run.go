package settle

import (
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/task"
)

// run calls the handlers in the order of due times. It holds the remaining hints after Config.BatchTime of handlers, after as many tasks of
// a kind as may share a transaction, and after a handler that may have changed the session; and those behind a task of their order key that
// has not ended.
func (t *transaction) run() error {
	for _, m := range t.order {
		if m.stage != stageWaiting {
			continue // the member ran in another member's batch call, or a handler changed its task
		}
		head := t.headOf(m)
		if !head.IsZero() || t.full || t.spent >= t.settler.cfg.BatchTime || t.pausedHere(&m.row) || t.guard.Traced {
			t.leave(m, head)
			continue
		}
		call := t.membersOfCall(m)
		if err := t.runCall(call); err != nil {
			return err
		}
		t.blockBehindFailed(call)
		t.ran[m.handler] += len(call)
		t.full = t.ran[m.handler] >= m.handler.batch()
	}
	return t.refundUnrun(t.unrun)
}

// membersOfCall returns the members of m's call: for a batch handler all that wait and may share a transaction, but one of each
// owner and subject (race 3), and the first of each order key.
func (t *transaction) membersOfCall(m *member) []*member {
	if m.handler.Form != Batch {
		return []*member{m}
	}
	type target struct{ owner, subject string }
	seen, ordered := map[target]bool{}, map[string]bool{}
	var call []*member
	for _, other := range t.order {
		if other.stage != stageWaiting || follows(other, ordered) {
			continue
		}
		key := target{other.row.Owner, other.row.Subject}
		room := t.ran[m.handler]+len(call) < m.handler.batch()
		if room && t.headOf(other).IsZero() && other.handler == m.handler && !seen[key] && !t.pausedHere(&other.row) {
			seen[key] = true
			call = append(call, other)
		}
	}
	return call
}

// runCall runs one call. In the batch's first transaction calls have no savepoints, so that a failure costs the
// transaction.
func (t *transaction) runCall(call []*member) error {
	if t.batch.careful {
		return t.runCarefully(call)
	}
	err := t.call(call)
	if err == nil {
		return nil
	}
	if err := t.blame(call, err); err != nil {
		return err
	}
	t.batch.careful = true
	if !t.accuse(call, err) {
		t.batch.halved = map[task.ID]bool{}
		for _, m := range call {
			t.batch.halved[m.row.ID] = true
		}
	}
	return errRetryNow
}

// runCarefully runs one call between savepoints, or in halves if it failed as a whole before.
func (t *transaction) runCarefully(call []*member) error {
	if len(call) > 1 && !slices.ContainsFunc(call, func(m *member) bool { return !t.batch.halved[m.row.ID] }) {
		return t.halve(call)
	}
	return t.runBetweenSavepoints(call)
}

func (t *transaction) halve(call []*member) error {
	half := len(call) / 2
	for _, part := range [][]*member{call[:half], call[half:]} {
		waiting := slices.DeleteFunc(slices.Clone(part), func(m *member) bool { return m.stage != stageWaiting })
		if len(waiting) == 0 {
			continue
		}
		if err := t.runBetweenSavepoints(waiting); err != nil {
			return err
		}
	}
	return nil
}

// runBetweenSavepoints runs one call between savepoints. If the call fails, only its own effects are undone: a single
// task is charged in this transaction, several tasks run in halves.
func (t *transaction) runBetweenSavepoints(call []*member) error {
	before, name := t.checkpoint(), statement.NewSavepoint()
	if err := t.savepoint("SAVEPOINT " + name); err != nil {
		return err
	}
	err := t.call(call)
	if err == nil {
		return t.savepoint("RELEASE SAVEPOINT " + name)
	}
	if err := t.blame(call, err); err != nil {
		return err
	}
	if err := t.savepoint("ROLLBACK TO SAVEPOINT " + name); err != nil {
		return err
	}
	t.rewind(before)
	if !t.accuse(call, err) {
		return t.halve(call)
	}
	for _, m := range call {
		row, result := chargeFailure(m.row, m.hint.Failure.Err, m.hint.Charge, m.handler.Info.Backoff, t.stamp())
		m.stage, m.verdict, m.row = stageDecided, verdict{}, row
		m.verdict.change(row, result)
		t.notePause(m)
	}
	return t.save(call...)
}

func (t *transaction) savepoint(text string) error {
	if _, err := t.tx.ExecContext(t.ctx, text); err != nil {
		if statement.NoSavepoint(err) { // a handler has passed over the loss of a transaction that a service began
			err = fmt.Errorf("%w: %w", ledger.ErrRolledBack, err)
		}
		return fmt.Errorf("savepoint in batch of %d: %w", len(t.batch.hints), err)
	}
	t.wrote = true
	return nil
}

// checkpoint remembers what a rollback to a savepoint undoes: changes of tasks, and members that were marked done.
type checkpoint struct {
	stages map[*member]stage
	mark   int // in the ledger
}

func (t *transaction) checkpoint() checkpoint {
	c := checkpoint{stages: map[*member]stage{}, mark: t.ledger.Mark()}
	for _, m := range t.order {
		c.stages[m] = m.stage
	}
	return c
}

func (t *transaction) rewind(c checkpoint) {
	t.ledger.Rewind(c.mark)
	for m, s := range c.stages {
		m.stage = s
	}
}
