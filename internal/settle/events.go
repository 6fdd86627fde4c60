package settle

import (
	"errors"
	"slices"

	"github.com/duetime/duetime/pkg/task"
)

// Event is what became of a task in a transaction that has committed.
type Event struct {
	Name string    // as the history names it; task.EventDone for a task whose effect has committed
	Task task.Task // the row as committed
	Err  error     // why the task is not done; nil if it is
}

// eventName returns the name of the event by which a result is reported; empty for results that report none.
func (r Result) eventName() string {
	switch r {
	case resultDone:
		return task.EventDone
	case resultFailed:
		return task.EventFailed
	case resultDead:
		return task.EventDead
	case resultSkipped:
		return task.EventSkipped
	case resultSnoozed:
		return task.EventSnoozed
	default:
		return ""
	}
}

// reportEvents reports what became of the members' tasks, in id order.
func (t *transaction) reportEvents() {
	var events []Event
	for _, m := range t.members {
		name := m.verdict.result.eventName()
		if name == "" {
			continue
		}
		events = append(events, Event{Name: name, Task: m.row, Err: m.reason()})
	}
	if len(events) == 0 {
		return
	}
	slices.SortFunc(events, func(a, b Event) int { return a.Task.ID.Compare(b.Task.ID) })
	t.settler.cfg.OnEvents(events)
}

// reason returns why the member's task is not done: the handler's error, or what the row says where no handler answered.
func (m *member) reason() error {
	switch {
	case m.verdict.result == resultDone:
		return nil
	case m.hint.Failure.Err != nil:
		return m.hint.Failure.Err
	default:
		return errors.New(m.row.LastError)
	}
}
