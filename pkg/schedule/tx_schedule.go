package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/kinds"
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
	if t.call != nil {
		var err error
		if ctx, err = t.call.ForSpecs(ctx, specs); err != nil {
			return nil, err
		}
	}
	if err := t.checkUsable(ctx); err != nil {
		return nil, err
	}
	if err := t.holdQueues(ctx, specs); err != nil {
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
	if specs, err = t.underHeldNames(ctx, specs, t.from(now)); err != nil {
		return nil, err
	}
	wanted, err := resolve(specs, t.from(now))
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		wanted[i].CreatedAt, wanted[i].UpdatedAt, wanted[i].Group = now, now, group
	}
	standing, err := t.rows.InsertUnlessEnded(ctx, t.db, wanted, now)
	if err == nil {
		err = t.checkOtherNames(ctx, specs, standing, now)
	}
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

// holdQueues refuses specs that nobody would run, and keeps queues that operators have added until the transaction ends.
func (t *Tx) holdQueues(ctx context.Context, specs []task.Spec) error {
	return t.kinds.CheckSpecs(specs, t.hold(ctx))
}

// hold asks once for each queue: specs of several kinds may take turns.
func (t *Tx) hold(ctx context.Context) kinds.Hold {
	var held []string
	return func(queue string) (bool, error) {
		if slices.Contains(held, queue) {
			return true, nil
		}
		added, err := t.rows.HoldQueue(ctx, t.db, queue)
		if err != nil {
			return false, t.ledger.Fail(err)
		}
		if added {
			held = append(held, queue)
		}
		return added, nil
	}
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

// within returns the due time, or an earlier one if task.MaxWait does not let the task wait for it. A task that should be running by
// now keeps its due time, unless its kind's CatchUpWindow would skip the change with it.
func (t *Tx) within(spec task.Spec, due time.Time, row task.Task, now time.Time) time.Time {
	since := rowform.Latest(row.CreatedAt, row.TriedAt)
	if slices.Contains(t.own, row.ID) {
		since = t.from(now) // its handler is being called
	}
	latest, now := spec.Within(due, since), t.from(now)
	if latest.Before(due) && !latest.After(now) && row.DueAt.Before(now) && spec.Kind().CatchUpWindow == 0 {
		return row.DueAt
	}
	return latest
}

// changeTaken moves and replaces the tasks that were found under the keys of KeyMove and KeyReplace specs, in the order of the
// specs: one write of each task, whatever the number of its specs.
func (t *Tx) changeTaken(ctx context.Context, specs []task.Spec, wanted, standing []task.Task, now time.Time) (
	[]task.Task, error,
) {
	var changes []transition.Change
	at, replaced := map[task.ID]int{}, map[task.ID]bool{} // at: in changes
	for i, row := range standing {
		mode := specs[i].Mode()
		if mode != rowform.MovePending && mode != rowform.ReplacePending || row.ID == specs[i].ID() {
			continue
		}
		n, seen := at[row.ID]
		if !seen {
			n, at[row.ID] = len(changes), len(changes)
			changes = append(changes, transition.Change{Before: row, After: row})
		}
		var err error
		next := changes[n].After
		wanted[i].DueAt = t.within(specs[i], wanted[i].DueAt, next, now)
		if mode == rowform.ReplacePending {
			replaced[row.ID] = true
			next, err = transition.Replace(next, wanted[i], t.from(now))
		} else {
			next, err = transition.Move(next, wanted[i].DueAt, t.from(now))
		}
		if err != nil {
			return nil, t.ledger.Fail(fmt.Errorf("schedule by changing %s: %w", row.ID, err))
		}
		next = t.renew(next)
		next.Version, next.UpdatedAt = row.Version+1, now
		changes[n].After = next
	}
	if len(changes) == 0 {
		return standing, nil
	}
	lines := make([]protocol.Event, len(changes))
	for n, c := range changes {
		if lines[n] = transition.Changed(c.Before, c.After); replaced[c.After.ID] {
			lines[n].Name = protocol.EventReplaced
		}
	}
	if err := t.ledger.Save(ctx, changes, lines); err != nil {
		return nil, fmt.Errorf("change %d tasks by their keys: %w", len(changes), err)
	}
	for i, row := range standing {
		if n, changed := at[row.ID]; changed {
			standing[i] = changes[n].After
		}
	}
	return standing, nil
}
