package settle

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/duetime/duetime/pkg/task"
)

// recordHistory writes what became of the tasks that did not simply fire, and what handlers did to others, into the history:
// one statement in the transaction that does it, and none where there is nothing to write. The history is for people: where it
// can't be written though the transaction stands, all else is committed without it.
func (t *transaction) recordHistory() error {
	events := t.changes.Events()
	for i := range events {
		events[i].Actor = task.ActorWorker
	}
	for _, m := range t.transitions {
		if e, ok := m.event(); ok {
			events = append(events, e)
		}
	}
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

// event is the line of a transition; false for what nobody wants to read of: a task re-armed for want of a handler.
func (m *member) event() (task.Event, bool) {
	e := task.Event{At: m.row.UpdatedAt, Task: m.row.ID, Actor: task.ActorWorker}
	attempt := fmt.Sprintf("attempt %d of %d: %s", m.row.Attempt, m.row.MaxAttempts, m.row.LastError)
	switch m.verdict.result {
	case resultFailed:
		e.Name = task.EventFailed
		e.Detail = fmt.Sprintf("next try in %v, %s", m.row.RunAt.Sub(m.row.UpdatedAt), attempt)
	case resultDead:
		e.Name, e.Detail = task.EventDead, attempt
	case resultSkipped:
		e.Name, e.Detail = task.EventSkipped, m.row.LastError
	case resultSnoozed:
		snooze, _ := errors.AsType[SnoozeError](m.hint.Failure.Err)
		e.Name, e.Detail = task.EventSnoozed, "for "+snooze.Delay.String()
	default:
		return e, false
	}
	return e, true
}
