package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Schedule makes the task, and returns the row that stands: when the spec's key is taken that is the existing task
// (its id isn't spec.ID()), moved or as it was, as the spec's key says. Scheduling the same Spec again returns its task,
// whatever became of it. Input outside the limits answers a *task.FieldError, and nothing was changed.
func (t *Tx) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	rows, err := t.ScheduleMany(ctx, []task.Spec{spec})
	if err != nil {
		return task.Task{}, err
	}
	return rows[0], nil
}

// ScheduleMany is Schedule for up to task.MaxPerCall specs, in few statements and all or nothing. The rows come back in
// the order of the specs; of two specs with one key the first makes the task, and the second finds it.
func (t *Tx) ScheduleMany(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	specs, err := t.before.Apply(ctx, specs)
	if err != nil {
		return nil, err
	}
	return t.schedulePrepared(ctx, specs)
}

func (t *Tx) scheduleMany(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	if err := checkCount(len(specs)); err != nil || len(specs) == 0 {
		return nil, err
	}
	if err := t.kinds.check(specs); err != nil {
		return nil, err
	}
	if err := t.checkUsable(ctx); err != nil {
		return nil, err
	}
	now, err := t.Now(ctx)
	if err != nil {
		return nil, t.fail(err)
	}
	wanted, err := resolve(specs, now)
	if err != nil {
		return nil, err
	}
	standing, err := t.rows.Insert(ctx, t.db, wanted)
	if err != nil {
		if slices.ContainsFunc(specs, func(s task.Spec) bool { return s.Mode() != task.Unkeyed }) {
			err = asRunning(err) // the task that has the key; a new row waits for a locked table only
		}
		return nil, t.fail(fmt.Errorf("schedule %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	for i, spec := range specs {
		if row := standing[i]; row.ID == spec.ID() {
			t.written = append(t.written, row) // to be put into the index after the commit
		}
	}
	if err := t.insertLabels(ctx, specs, wanted, standing); err != nil {
		return nil, err
	}
	return t.moveTaken(ctx, specs, wanted, standing, now)
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

// moveTaken moves the tasks that were found under the key of a KeyMove spec, each once: to the time of its last spec.
func (t *Tx) moveTaken(ctx context.Context, specs []task.Spec, wanted, standing []task.Task, now time.Time) (
	[]task.Task, error,
) {
	before, moved := make(map[task.ID]task.Task), make(map[task.ID]task.Task)
	for i, row := range standing {
		if specs[i].Mode() != task.MovePending || row.ID == specs[i].ID() {
			continue
		}
		next, err := row.Move(wanted[i].DueAt, now)
		if err != nil {
			return nil, t.fail(fmt.Errorf("schedule by moving %s: %w", row.ID, err))
		}
		before[row.ID], moved[row.ID] = row, t.renew(next)
	}
	if len(moved) == 0 {
		return standing, nil
	}
	for i, row := range standing {
		if next, ok := moved[row.ID]; ok {
			standing[i] = next
		}
	}
	changed := slices.Collect(maps.Values(moved))
	were := make([]task.Task, len(changed))
	for i, row := range changed {
		were[i] = before[row.ID]
	}
	if err := t.save(ctx, "move", were, changed); err != nil {
		return nil, err
	}
	return standing, nil
}
