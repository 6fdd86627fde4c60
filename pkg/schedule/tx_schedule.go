package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Schedule makes the task, and returns the row that stands: when the spec's key is taken that is the existing task
// (its id isn't spec.ID()), moved, replaced or as it was, as the spec's key says; spec.Outcome tells which. Scheduling the same
// Spec again returns its task, whatever became of it. Input outside the limits answers a *task.FieldError, and nothing was
// changed.
//
// In a handler, a follow-up under the key of the task that is being run, whose key is free only when it has ended, answers
// worker.ErrOwnKey and changes nothing: move the task instead, or give each follow-up a key of its own. KeyMove with that key moves the
// task, and KeyReplace gives it new data as well: its run takes effect, and it stays pending for the next one, as after Reschedule.
// task.Window answers worker.ErrOwnKey within the window that has admitted the task.
func (t *Tx) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	rows, err := t.ScheduleMany(ctx, []task.Spec{spec})
	if err != nil {
		return task.Task{}, err
	}
	return rows[0], nil
}

// ScheduleMany is Schedule for up to task.MaxPerCall specs, in few statements and all or nothing. The rows come back in
// the order of the specs, each as it stands after the call; of two specs with one key the first makes the task, and the second
// finds it.
func (t *Tx) ScheduleMany(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	specs, err := t.before.apply(ctx, specs)
	if err != nil {
		return nil, err
	}
	return t.schedulePrepared(ctx, specs)
}

// scheduleMany makes the tasks members of a group, if it has a name.
func (t *Tx) scheduleMany(ctx context.Context, specs []task.Spec, group string) ([]task.Task, error) {
	if err := checkCount(len(specs)); err != nil || len(specs) == 0 {
		return nil, err
	}
	if err := t.kinds.CheckSpecs(specs); err != nil {
		return nil, err
	}
	if t.call != nil {
		var err error
		if ctx, err = t.call.ForSpecs(ctx, specs); err != nil {
			return nil, err
		}
	}
	if err := t.checkUsable(ctx); err != nil {
		return nil, err
	}
	owners := make([]string, len(specs))
	for i, spec := range specs {
		owners[i] = spec.Owner()
	}
	now, err := t.nowUnlessBlocked(ctx, owners...)
	if err != nil {
		return nil, err
	}
	wanted, err := resolve(specs, t.from(now))
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		wanted[i].CreatedAt, wanted[i].UpdatedAt, wanted[i].Group = now, now, group
	}
	standing, err := t.rows.Insert(ctx, t.db, wanted)
	if err != nil {
		if slices.ContainsFunc(specs, func(s task.Spec) bool { return s.Mode() != rowform.Unkeyed }) {
			err = ledger.AsRunning(err) // the task that has the key; a new row waits for a locked table only
		}
		return nil, t.ledger.Fail(fmt.Errorf("schedule %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	made, err := t.insertLabels(ctx, specs, wanted, standing)
	if err != nil {
		return nil, err
	}
	t.ledger.Inserted(madeBy(specs, standing))
	if group != "" {
		if err := t.joinGroup(ctx, group, standing, made); err != nil {
			return nil, err
		}
	}
	return t.changeTaken(ctx, specs, wanted, standing, now)
}

// madeBy returns the rows that specs have made, in this call or in an earlier one.
func madeBy(specs []task.Spec, standing []task.Task) []task.Task {
	made := make([]task.Task, 0, len(specs))
	for i, spec := range specs {
		if standing[i].ID == spec.ID() {
			made = append(made, standing[i])
		}
	}
	return made
}

func resolve(specs []task.Spec, now time.Time) ([]task.Task, error) {
	wanted := make([]task.Task, len(specs))
	for i, spec := range specs {
		row, err := spec.Resolve(now)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", spec.ID(), err)
		}
		wanted[i] = row
	}
	return wanted, nil
}

// takenTask is a task that was found under the keys of specs, and what the specs make of it: one write, whatever their number.
type takenTask struct {
	before, after task.Task
	replaced      bool
}

// follow applies one more spec, of which wanted is the row that it would have made.
func (k *takenTask) follow(mode rowform.KeyMode, wanted task.Task, now time.Time) (err error) {
	if mode == rowform.ReplacePending {
		k.after, err = transition.Replace(k.after, wanted, now)
		k.replaced = true
	} else {
		k.after, err = transition.Move(k.after, wanted.DueAt, now)
	}
	k.after.Version = k.before.Version + 1
	return err
}

// changeTaken moves and replaces the tasks that were found under the keys of KeyMove and KeyReplace specs, in the order of the
// specs.
func (t *Tx) changeTaken(ctx context.Context, specs []task.Spec, wanted, standing []task.Task, now time.Time) (
	[]task.Task, error,
) {
	taken := map[task.ID]*takenTask{}
	for i, row := range standing {
		mode := specs[i].Mode()
		if mode != rowform.MovePending && mode != rowform.ReplacePending || row.ID == specs[i].ID() {
			continue
		}
		k := taken[row.ID]
		if k == nil {
			k = &takenTask{before: row, after: row}
			taken[row.ID] = k
		}
		if err := k.follow(mode, wanted[i], t.from(now)); err != nil {
			return nil, t.ledger.Fail(fmt.Errorf("schedule by changing %s: %w", row.ID, err))
		}
		k.after = t.renew(k.after)
		k.after.UpdatedAt = now
	}
	if len(taken) == 0 {
		return standing, nil
	}
	if err := t.saveTaken(ctx, taken); err != nil {
		return nil, err
	}
	for i, row := range standing {
		if k := taken[row.ID]; k != nil {
			standing[i] = k.after
		}
	}
	return standing, nil
}

// saveTaken writes tasks that were moved, and those that were replaced.
func (t *Tx) saveTaken(ctx context.Context, taken map[task.ID]*takenTask) error {
	var moved, replaced []transition.Change
	for _, k := range taken {
		if c := (transition.Change{Before: k.before, After: k.after}); k.replaced {
			replaced = append(replaced, c)
		} else {
			moved = append(moved, c)
		}
	}
	if err := t.ledger.Write(ctx, moved, protocol.EventMoved); err != nil {
		return fmt.Errorf("move %d tasks: %w", len(moved), err)
	}
	if err := t.ledger.Write(ctx, replaced, protocol.EventReplaced); err != nil {
		return fmt.Errorf("replace %d tasks: %w", len(replaced), err)
	}
	return nil
}
