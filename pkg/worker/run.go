package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// run calls the handlers in id order, until they have had their time.
func (t *try) run() error {
	for _, m := range t.order {
		if m.state != stateWaiting {
			continue // taken along in a call, or moved away by a handler
		}
		if t.spent >= t.BatchTime {
			m.state, m.outcome = stateSettled, outcome{at: t.clock.Now(), lane: m.hint.Lane}
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
func (t *try) together(m *member) []*member {
	if m.handler.form != formBatch {
		return []*member{m}
	}
	type target struct{ owner, subject string }
	seen := map[target]bool{}
	var call []*member
	for _, other := range t.order {
		key := target{other.row.Owner, other.row.Subject}
		if other.state == stateWaiting && other.handler == m.handler && !seen[key] {
			seen[key] = true
			call = append(call, other)
		}
	}
	return call
}

// perform runs one call, optimistically at first: without a savepoint, so that a failure costs the transaction.
func (t *try) perform(call []*member) error {
	if t.careful {
		return t.performCarefully(call)
	}
	err := t.call(call)
	if err == nil {
		return nil
	}
	if err := t.blame(call, err); err != nil {
		return err
	}
	t.careful = true
	if !t.accuse(call, err) {
		t.split = map[task.ID]bool{}
		for _, m := range call {
			t.split[m.row.ID] = true
		}
	}
	return errAgain
}

// performCarefully runs one call between savepoints. If it fails, only its own effects are undone; a single task is
// charged in this same transaction, several are tried in halves.
func (t *try) performCarefully(call []*member) error {
	if len(call) > 1 && t.failedTogether(call) {
		return t.halve(call)
	}
	return t.guarded(call)
}

func (t *try) failedTogether(call []*member) bool {
	for _, m := range call {
		if !t.split[m.row.ID] {
			return false
		}
	}
	return true
}

func (t *try) halve(call []*member) error {
	half := len(call) / 2
	for _, part := range [][]*member{call[:half], call[half:]} {
		waiting := part[:0:0]
		for _, m := range part {
			if m.state == stateWaiting {
				waiting = append(waiting, m)
			}
		}
		if len(waiting) == 0 {
			continue
		}
		if err := t.guarded(waiting); err != nil {
			return err
		}
	}
	return nil
}

func (t *try) guarded(call []*member) error {
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
		row, result := afterFailure(m.hint, m.row, m.handler.info.Backoff, t.at())
		t.transition(m, row, result)
		m.state = stateSettled
	}
	return t.save(call...)
}

func (t *try) savepoint(statement string) error {
	if _, err := t.tx.ExecContext(t.ctx, statement); err != nil {
		return fmt.Errorf("savepoint in batch of %d: %w", len(t.hints), err)
	}
	t.wrote = true
	return nil
}

// checkpoint remembers what a savepoint undoes: tasks that a handler changed, and the marking that this caused.
type checkpoint struct {
	states map[*member]state
	mark   schedule.Mark
}

func (t *try) checkpoint() checkpoint {
	c := checkpoint{states: map[*member]state{}, mark: t.changes.Mark()}
	for _, m := range t.order {
		c.states[m] = m.state
	}
	return c
}

func (t *try) rewind(c checkpoint) {
	t.changes.Rewind(c.mark)
	for m, s := range c.states {
		m.state = s
	}
}

// blame finds out whose fault the error of a call was. It answers nil when it was the handler's and the transaction is
// sound. It never judges by the text or type of what the handler returned, which may have swallowed what matters or may
// speak of another server: it asks the transaction whether it still stands.
func (t *try) blame(call []*member, cause error) error {
	t.abandoned = errors.Is(cause, errAbandoned)
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err() // the worker stops
	case t.abandoned:
		return t.lost(call, cause)
	case t.overEarly:
		return t.over(call, cause)
	case t.conflict:
		return t.unmarked(cause)
	}
	_, err := t.store.Now(t.ctx, t.tx)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, errTimeout):
		return t.lost(call, cause)
	case t.store.Unavailable(err):
		return fmt.Errorf("after a handler's %q: %w", cause.Error(), err)
	case t.store.Retryable(err):
		t.metrics.retried.Inc()
		t.without(call)
		return errAgain
	default: // cut off by a context of the handler's own, or by one of a handler before that passed it over
		if t.calledBefore(call) {
			return fmt.Errorf("%w, noticed after a handler's %q: %w", errCut, cause.Error(), err)
		}
		return t.lost(call, cause)
	}
}

// calledBefore reports whether other handlers than those of the call ran in this transaction.
func (t *try) calledBefore(call []*member) bool {
	n := 0
	for _, h := range t.hints {
		if h.Call.Version != 0 {
			n++
		}
	}
	return n > len(call)
}

// over blames a call that ended the transaction. What had run before it is marked done, and that may have committed: the rows
// tell.
func (t *try) over(call []*member, cause error) error {
	for _, h := range t.hints {
		h.CommitUnknown = true
	}
	return t.lost(call, cause)
}

// lost blames a call that took the transaction with it: one task is charged in the next transaction, several come back
// one by one, because to halve them could hang as often.
func (t *try) lost(call []*member, cause error) error {
	t.careful = true
	if !t.accuse(call, cause) {
		t.without(call)
	}
	return errAgain
}

// accuse notes the failure with the hints that it holds for; false when it is one of several and nobody knows which.
func (t *try) accuse(call []*member, cause error) bool {
	_, snooze := errors.AsType[snoozeError](cause)
	_, discard := errors.AsType[discardError](cause)
	if len(call) > 1 && !snooze && !discard {
		return false
	}
	for _, m := range call {
		m.hint.Failure.Err, m.hint.Failure.Version = cause, m.row.Version
		if !snooze {
			t.logFailure(m, cause)
		}
	}
	return true
}

func (t *try) logFailure(m *member, cause error) {
	attrs := []slog.Attr{
		slog.String("task_id", m.row.ID.String()), slog.String("kind", m.row.Kind),
		slog.Int("attempt", m.row.Attempt), slog.Any("err", cause),
	}
	if p, ok := errors.AsType[panicError](cause); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	t.Logger.LogAttrs(t.ctx, slog.LevelWarn, "handler failed", attrs...)
}

// markDone marks in one statement what has run so far. A handler that is about to look at or change tasks causes it
// too: whoever has run answers "already done" from then on, although nothing has committed yet.
func (t *try) markDone(ctx context.Context) error {
	var ran []*member
	for _, m := range t.order {
		if m.state == stateRan {
			ran = append(ran, m)
		}
	}
	if len(ran) == 0 {
		return nil
	}
	t.wrote = true
	if err := t.store.Finish(ctx, t.tx, t.rows(ran), t.at()); err != nil {
		t.conflict = true
		return fmt.Errorf("mark %d tasks done: %w", len(ran), err)
	}
	for _, m := range ran {
		m.state = stateMarked
	}
	return nil
}

// unmarked finds out why tasks could not be marked done. If the transaction stands, their rows are not as they were
// read under lock: a handler changed them behind our back. Nobody can tell which, so each runs alone; alone it is
// charged.
func (t *try) unmarked(cause error) error {
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	if _, err := t.store.Now(t.ctx, t.tx); err != nil && (t.store.Unavailable(err) || t.store.Retryable(err)) {
		return err
	}
	if len(t.hints) > 1 {
		t.metrics.retried.Inc()
		return errPart
	}
	for _, m := range t.members {
		m.hint.Failure.Err, m.hint.Failure.Version = cause, m.row.Version
		t.logFailure(m, cause)
	}
	return errAgain
}
