package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// ErrOwnKey is the answer to a handler that schedules under the key, or the id, of the very task that it runs.
var ErrOwnKey = errors.New("the task that is being run has this key itself, and nothing would follow: reschedule it, or use another key")

// ForSpecs is ForTasks for specs that are to be scheduled. Where none may find a task that stands, it is Bound.
func (c *Call) ForSpecs(ctx context.Context, specs []task.Spec) (context.Context, error) {
	if !slices.ContainsFunc(specs, c.mayMeet) {
		ctx = c.Bound(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return ctx, nil
	}
	ctx, err := c.ForTasks(ctx)
	if err != nil {
		return nil, err
	}
	return ctx, c.refuseOwnKeys(ctx, specs)
}

// mayMeet reports whether the spec may find a task that stands, instead of making one.
func (c *Call) mayMeet(s task.Spec) bool {
	return s.Mode() != rowform.Unkeyed || slices.ContainsFunc(c.members, func(m *member) bool { return m.row.ID == s.ID() })
}

// refuseOwnKeys refuses specs that would find one of the handler's own tasks and leave it as it is.
func (c *Call) refuseOwnKeys(ctx context.Context, specs []task.Spec) error {
	now, err := c.tx.ledger.Now(ctx)
	if err != nil {
		return err
	}
	own := c.ownTasks()
	for _, spec := range specs {
		wanted, err := spec.Resolve(now)
		if err != nil {
			continue // scheduling says so itself
		}
		for _, o := range own {
			changes := (spec.Mode() == rowform.MovePending || spec.Mode() == rowform.ReplacePending) && o.State == task.Pending
			if o.ID == wanted.ID || sameKey(o, wanted, spec.Kind().Names()) && !changes {
				return fmt.Errorf("schedule %s of owner %s in the handler of %s: %w", wanted.Kind, wanted.Owner, o.ID, ErrOwnKey)
			}
		}
	}
	return nil
}

// ownTasks returns the call's tasks, with the transaction's changes.
func (c *Call) ownTasks() []task.Task {
	own := collect(c.members, rowOf)
	for _, changed := range c.tx.ledger.Touched(0) {
		for i := range own {
			if own[i].ID == changed.ID {
				own[i] = changed
			}
		}
	}
	return own
}

// sameKey reports whether b, of a kind with these names, has the key of a.
func sameKey(a, b task.Task, names []string) bool {
	return b.DedupKey != "" && a.DedupKey == b.DedupKey && slices.Contains(names, a.Kind) && a.Owner == b.Owner
}
