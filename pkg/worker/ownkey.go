package worker

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// mayMeet reports whether the spec may find a task that stands, instead of making one.
func (t *Tx) mayMeet(s task.Spec) bool { return s.Mode() != task.Unkeyed || t.call.Runs(s.ID()) }

// refuseOwnKeys refuses specs that would find one of the handler's own tasks and leave it as it is.
func (t *Tx) refuseOwnKeys(ctx context.Context, specs []task.Spec) error {
	now, err := t.call.Changes().Now(ctx)
	if err != nil {
		return err
	}
	own := t.call.OwnTasks()
	for _, spec := range specs {
		wanted, err := spec.Resolve(now)
		if err != nil {
			continue // scheduling says so itself
		}
		for _, o := range own {
			changes := (spec.Mode() == task.MovePending || spec.Mode() == task.ReplacePending) && o.State == task.Pending
			if o.ID == wanted.ID || sameKey(o, wanted) && !changes {
				return fmt.Errorf("schedule %s of owner %s in the handler of %s: %w", wanted.Kind, wanted.Owner, o.ID, ErrOwnKey)
			}
		}
	}
	return nil
}

func sameKey(a, b task.Task) bool {
	return b.DedupKey != "" && a.DedupKey == b.DedupKey && a.Kind == b.Kind && a.Owner == b.Owner
}
