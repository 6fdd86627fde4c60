package settle

import (
	"fmt"
	"slices"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// run calls the handlers in id order, until they have had their time.
func (t *transaction) run() error {
	for _, m := range t.order {
		if m.stage != stageWaiting {
			continue // taken along in a call, or moved away by a handler
		}
		if t.spent >= t.settler.cfg.BatchTime {
			m.stage, m.verdict = stageDecided, verdict{}
			m.verdict.lookLater(t.settler.clock.Now(), m.hint.Lane)
			continue
		}
		if err := t.perform(t.together(m)); err != nil {
			return err
		}
	}
	return nil
}

// together returns the members to be called with m: for a batch handler all that wait, but one of each owner and subject,
// because a statement counts a row once however often it is named.
func (t *transaction) together(m *member) []*member {
	if m.handler.Form != Batch {
		return []*member{m}
	}
	type target struct{ owner, subject string }
	seen := map[target]bool{}
	var call []*member
	for _, other := range t.order {
		key := target{other.row.Owner, other.row.Subject}
		if other.stage == stageWaiting && other.handler == m.handler && !seen[key] {
			seen[key] = true
			call = append(call, other)
		}
	}
	return call
}

// perform runs one call, optimistically at first: without a savepoint, so that a failure costs the transaction.
func (t *transaction) perform(call []*member) error {
	if t.batch.careful {
		return t.performCarefully(call)
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

// performCarefully runs one call between savepoints. If it fails, only its own effects are undone; a single task is
// charged in this same transaction, several are tried in halves.
func (t *transaction) performCarefully(call []*member) error {
	unblamed := func(m *member) bool { return !t.batch.halved[m.row.ID] }
	if len(call) > 1 && !slices.ContainsFunc(call, unblamed) {
		return t.halve(call) // they failed together
	}
	return t.guarded(call)
}

func (t *transaction) halve(call []*member) error {
	half := len(call) / 2
	for _, part := range [][]*member{call[:half], call[half:]} {
		waiting := slices.DeleteFunc(slices.Clone(part), func(m *member) bool { return m.stage != stageWaiting })
		if len(waiting) == 0 {
			continue
		}
		if err := t.guarded(waiting); err != nil {
			return err
		}
	}
	return nil
}

// guarded runs one call between savepoints, and charges it or halves it if it fails.
func (t *transaction) guarded(call []*member) error {
	before := t.checkpoint()
	if err := t.savepoint("SAVEPOINT duetime_call"); err != nil {
		return err
	}
	err := t.call(call)
	if err == nil {
		return t.savepoint("RELEASE SAVEPOINT duetime_call")
	}
	if err := t.blame(call, err); err != nil {
		return err
	}
	if err := t.savepoint("ROLLBACK TO SAVEPOINT duetime_call"); err != nil {
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
		t.transitions = append(t.transitions, m)
	}
	return t.save(call...)
}

func (t *transaction) savepoint(statement string) error {
	if _, err := t.tx.ExecContext(t.ctx, statement); err != nil {
		return fmt.Errorf("savepoint in batch of %d: %w", len(t.batch.hints), err)
	}
	t.wrote = true
	return nil
}

// checkpoint remembers what a savepoint undoes: tasks that a handler changed, and the marking that this caused.
type checkpoint struct {
	stages map[*member]stage
	mark   schedule.Mark
}

func (t *transaction) checkpoint() checkpoint {
	c := checkpoint{stages: map[*member]stage{}, mark: t.changes.Mark()}
	for _, m := range t.order {
		c.stages[m] = m.stage
	}
	return c
}

func (t *transaction) rewind(c checkpoint) {
	t.changes.Rewind(c.mark)
	for m, s := range c.stages {
		m.stage = s
	}
}
