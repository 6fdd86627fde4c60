package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// ErrOwnKey is what scheduling answers to a handler that gives a follow-up the key, or the id, of the very task that it runs:
// that task still has it, and would be the answer, so that nothing would follow. Nothing was changed.
var ErrOwnKey = errors.New("the task that is being run has this key itself, and nothing would follow: reschedule it, or use another key")

// mayMeet reports whether the spec may find a task that stands, instead of making one.
func (t *Tx) mayMeet(s task.Spec) bool { return s.Mode() != task.Unkeyed || t.runs(s.ID()) }

func (t *Tx) runs(id task.ID) bool {
	for _, m := range t.call {
		if m.row.ID == id {
			return true
		}
	}
	return false
}

// refuseOwnKeys refuses specs that would find one of the handler's own tasks and leave it as it is.
func (t *Tx) refuseOwnKeys(ctx context.Context, specs []task.Spec) error {
	now, err := t.try.changes.Now(ctx)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		wanted, err := spec.Resolve(now)
		if err != nil {
			continue // scheduling says so itself
		}
		for _, own := range t.own() {
			moves := spec.Mode() == task.MovePending && own.State == task.Pending
			if own.ID == wanted.ID || sameKey(own, wanted) && !moves {
				return fmt.Errorf("schedule %s of owner %s in the handler of %s: %w", wanted.Kind, wanted.Owner, own.ID, ErrOwnKey)
			}
		}
	}
	return nil
}

// own returns the tasks that the handler runs, as they stand in this transaction.
func (t *Tx) own() []task.Task {
	own := make([]task.Task, len(t.call))
	for i, m := range t.call {
		own[i] = m.row
	}
	for _, changed := range t.try.changes.Touched() {
		for i := range own {
			if own[i].ID == changed.ID {
				own[i] = changed
			}
		}
	}
	return own
}

func sameKey(a, b task.Task) bool {
	return b.DedupKey != "" && a.DedupKey == b.DedupKey && a.Kind == b.Kind && a.Owner == b.Owner
}
