package settle

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// recordHistory writes lines about the tasks that did not simply fire, and about tasks that handlers changed, into the
// history, with one statement in the transaction. The history is for people: if it can't be written although the
// transaction stands, the transaction commits without it.
func (t *transaction) recordHistory() error {
	events := t.ledger.Events()
	if len(events) == 0 {
		return nil
	}
	s := t.settler
	err := s.store.Record(t.ctx, t.tx, events)
	if err == nil || t.ctx.Err() != nil || s.store.Retryable(err) || s.store.Unavailable(err) {
		return err
	}
	s.log.WarnContext(t.ctx, "history not written", slog.Int("n", len(events)), slog.Any("err", err))
	return nil
}

// event returns the history's line about a transition; false for transitions without one, such as of a task without a
// handler.
func (m *member) event() (protocol.Event, bool) {
	e := protocol.Event{At: m.row.UpdatedAt, Task: m.row.ID}
	attempt := fmt.Sprintf("attempt %d of %d: %s", m.row.Attempt, m.row.MaxAttempts, m.row.LastError)
	switch m.verdict.result {
	case resultFailed:
		e.Name = task.EventFailed
		e.Detail = fmt.Sprintf("next try in %v, %s", m.row.RunAt.Sub(m.row.UpdatedAt), attempt)
	case resultDead:
		e.Name, e.Detail = task.EventDead, attempt
	case resultSkipped:
		e.Name, e.Detail = task.EventSkipped, m.row.LastError
	case resultBlocked:
		e.Name, e.Detail = protocol.EventCancelled, task.ErrOwnerBlocked.Error()
	case resultSnoozed:
		snooze, _ := errors.AsType[SnoozeError](m.hint.Failure.Err)
		e.Name, e.Detail = task.EventSnoozed, "for "+snooze.Delay.String()
		if snooze.PausesKey {
			e.Detail = fmt.Sprintf("until %s, and with it its owner in queue %s", m.row.RunAt.Format(rowform.MomentText), m.row.Queue)
		}
	default:
		return e, false
	}
	return e, true
}
