package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	publishTime = time.Second // that dispatch may take to claim and publish a hint
	mendTries   = 4           // for tasks that keep changing
)

// errStillMoving says that some tasks changed during each try to mend them: their writers are at work.
var errStillMoving = errors.New("tasks keep moving")

// clock returns the database's time: the time read when the pass began, plus the time since. With the time of its
// beginning, a long pass would expect rows in the due set whose moment has come meanwhile.
type clock func() time.Time

// duePolicy says when a row whose hint may be under way must be in the due set.
type duePolicy int

const (
	allowAbsent  duePolicy = iota // the row may be absent from the due set
	putIfNowhere                  // the row may be absent if it is in the owner's set; otherwise it was never put
	putAlways                     // the row must be in the due set
)

// nowhere is the standing of a task that is in neither set.
var nowhere = task.Standing{Due: task.NoScore, Owner: task.NoScore}

// mend compares rows with the index and mends the index, by the steps of the package comment. tasks only names the rows,
// which mend reads. It returns errStillMoving if a task changed during each try, and a task.ShardsError if it has mended
// all tasks except those of these shards.
func (r *Reconciler) mend(ctx context.Context, reason string, tasks []task.Task, now clock, want duePolicy) error {
	total := 0
	defer func() { r.report(ctx, reason, total) }()
	var skipped skippedShards
	for range mendTries {
		if len(tasks) == 0 {
			return skipped.err()
		}
		layout, err := r.layoutFor(ctx, reason)
		if err != nil {
			return err
		}
		repairs, rows, err := r.compare(ctx, layout, tasks, now, want)
		if err := skipped.collect(err, tasks); err != nil {
			return err
		}
		if len(repairs) == 0 {
			return skipped.err()
		}
		if want != putAlways && reason != feedReason {
			r.recordDrift(ctx, reason, layout, repairs, rows, now)
		}
		n, err := r.index.Repair(ctx, repairs)
		total += n
		if err := skipped.collect(err, tasks); err != nil {
			return fmt.Errorf("repair %d entries: %w", len(repairs), err)
		}
		repairs = slices.DeleteFunc(repairs, func(rep task.Repair) bool { return skipped.has(rep.Task) })
		if tasks, err = r.stillMoving(ctx, repairs, n, rows); err != nil {
			return err
		}
	}
	if len(tasks) > 0 && skipped.err() == nil { // tasks of failed shards are retried anyway
		return fmt.Errorf("mend %s and %d more: %w", tasks[0].ID, len(tasks)-1, errStillMoving)
	}
	return skipped.err()
}

// mendUnlessMoving is mend for passes that compare the tasks once more later: it leaves tasks that keep changing to their
// writers.
func (r *Reconciler) mendUnlessMoving(ctx context.Context, reason string, tasks []task.Task, now clock, want duePolicy) error {
	err := r.mend(ctx, reason, tasks, now, want)
	if errors.Is(err, errStillMoving) {
		return nil
	}
	return err
}

// mendUnlike mends the rows, just read, whose entries differ; comparing all rows costs one round trip. A row in neither
// set was never put, for example because another program inserted it for a past moment: no hint of it is under way. A
// task.ShardsError names the shards whose rows were skipped.
func (r *Reconciler) mendUnlike(ctx context.Context, reason string, rows []task.Task, now clock) error {
	if len(rows) == 0 {
		return nil
	}
	var skipped skippedShards
	layout, err := r.layoutFor(ctx, reason)
	if err != nil {
		return err
	}
	rows, err = r.rehomeStrays(ctx, layout, rows, now)
	if err := skipped.collect(err, rows); err != nil {
		return err
	}
	seen, err := r.index.Standings(ctx, rows)
	if err := skipped.collect(err, rows); err != nil {
		return fmt.Errorf("read %d standings: %w", len(rows), err)
	}
	var absent, unlike []task.Task
	for i, row := range rows {
		if skipped.has(row) {
			continue
		}
		switch right := r.right(layout, row, seen[i], now, putIfNowhere); {
		case right == seen[i]:
		case seen[i] == nowhere && right.Due != task.NoScore && !mayBeUnderWay(row, now): // a row whose hint is under way may have ended
			absent = append(absent, row)
		default:
			unlike = append(unlike, row)
		}
	}
	moved, err := r.fill(ctx, reason, absent, now)
	if err := skipped.collect(err, absent); err != nil {
		return err
	}
	unlike = append(unlike, moved...)
	if err := skipped.collect(r.mendUnlessMoving(ctx, reason, unlike, now, putIfNowhere), unlike); err != nil {
		return err
	}
	return skipped.err()
}

// fill puts rows that were in neither set. It returns the rows to mend: those that are in a set meanwhile, and those
// that have changed since they were read, whose own put or drop may have come before.
func (r *Reconciler) fill(ctx context.Context, reason string, absent []task.Task, now clock) ([]task.Task, error) {
	if len(absent) == 0 {
		return nil, nil
	}
	if reason != feedReason {
		r.recordMissing(ctx, reason, absent, now)
	}
	var skipped skippedShards
	otherwise, err := r.index.Fill(ctx, absent)
	if err := skipped.collect(err, absent); err != nil {
		return nil, fmt.Errorf("fill %d entries: %w", len(absent), err)
	}
	absent = skipped.reachable(absent) // not in place: the caller goes on with its own
	r.report(ctx, reason, len(absent)-len(otherwise))
	moved, err := r.moved(ctx, absent)
	if err != nil {
		return nil, err
	}
	return append(otherwise, moved...), skipped.err()
}

// compare reads the index, then the rows, and returns the repairs to make. With a task.ShardsError it has compared all
// tasks except those of these shards.
func (r *Reconciler) compare(
	ctx context.Context, l task.Layout, tasks []task.Task, now clock, want duePolicy,
) ([]task.Repair, map[task.ID]task.Task, error) {
	var skipped skippedShards
	seen, err := r.index.Standings(ctx, tasks)
	if err := skipped.collect(err, tasks); err != nil {
		return nil, nil, fmt.Errorf("read %d standings: %w", len(tasks), err)
	}
	rows, err := r.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	var repairs []task.Repair
	for i, t := range tasks {
		if skipped.has(t) {
			continue
		}
		right := nowhere // for a task that was purged, never committed, or is in another shard or queue than its row
		if row, found := rows[t.ID]; found && row.Shard == t.Shard && task.SameQueue(row, t) {
			right = r.right(l, row, seen[i], now, want)
		}
		if right != seen[i] {
			repairs = append(repairs, task.Repair{Task: t, Seen: seen[i], Right: right})
		}
	}
	return repairs, rows, skipped.err()
}

// mayBeUnderWay reports whether the row's hint may be under way.
func mayBeUnderWay(row task.Task, now clock) bool { return row.RunAt.Before(underWayUntil(now)) }

// right returns the standing that a row must have.
func (r *Reconciler) right(l task.Layout, row task.Task, seen task.Standing, now clock, want duePolicy) task.Standing {
	score := task.ScoreOf(row)
	if !l.Keeps(score.RunAt(), now()) || want != putAlways && seen == nowhere && r.unfed(l, row) {
		return nowhere
	}
	due := score
	mayBeAbsent := want == allowAbsent || want == putIfNowhere && seen.Owner != task.NoScore
	if mayBeAbsent && mayBeUnderWay(row, now) && seen.Due == task.NoScore {
		due = task.NoScore
	}
	return task.Standing{Due: due, Owner: score}
}

// stillMoving returns the tasks to mend once more after a repair: those whose rows have changed since they were read, or
// all tasks if some standing had changed since it was read, so that its repair did nothing.
func (r *Reconciler) stillMoving(ctx context.Context, repairs []task.Repair, done int, before map[task.ID]task.Task) ([]task.Task, error) {
	tasks := make([]task.Task, len(repairs))
	for i, rep := range repairs {
		tasks[i] = rep.Task
	}
	if done < len(repairs) || len(tasks) == 0 {
		return tasks, nil
	}
	after, err := r.rows(ctx, tasks)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return sameRow(after[t.ID], before[t.ID]) }), nil
}

// sameRow reports whether a row has not changed between two reads. A row that went to another shard keeps its version.
func sameRow(a, b task.Task) bool { return a.Version == b.Version && a.Shard == b.Shard }

// moved returns the tasks whose rows are no longer at the tasks' versions, or no longer in their shards.
func (r *Reconciler) moved(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	_, moved, err := r.reread(ctx, tasks)
	return moved, err
}

// reread separates the tasks whose rows are still at the tasks' versions and in their shards from the others.
func (r *Reconciler) reread(ctx context.Context, tasks []task.Task) (still, moved []task.Task, err error) {
	after, err := r.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tasks {
		if sameRow(after[t.ID], t) {
			still = append(still, t)
		} else {
			moved = append(moved, t)
		}
	}
	return still, moved, nil
}

func (r *Reconciler) rows(ctx context.Context, tasks []task.Task) (map[task.ID]task.Task, error) {
	ids := make([]task.ID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	rows, err := r.store.Entries(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(ids), err)
	}
	byID := make(map[task.ID]task.Task, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	return byID, nil
}

// recordDrift counts repairs that a sweep is about to make, and raises the alarm. An entry beyond the horizon is no drift: the
// horizon may have changed.
func (r *Reconciler) recordDrift(
	ctx context.Context, reason string, l task.Layout, repairs []task.Repair, rows map[task.ID]task.Task, now clock,
) {
	r.alarm(ctx, reason, r.metrics.countDrift(slices.DeleteFunc(slices.Clone(repairs), func(rep task.Repair) bool {
		row, found := rows[rep.Task.ID]
		score := task.ScoreOf(row)
		beyond := !l.Keeps(score.RunAt(), now()) && (rep.Seen.Owner == score || rep.Seen.Due == score)
		return found && (changedLately(row, now) || beyond) || r.inHand.has(rep.Task.ID)
	})))
}

// recordMissing counts rows that a sweep is about to put, and raises the alarm.
func (r *Reconciler) recordMissing(ctx context.Context, reason string, rows []task.Task, now clock) {
	r.alarm(ctx, reason, r.metrics.countMissing(slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool {
		return changedLately(row, now) || r.inHand.has(row.ID)
	})))
}

// changedLately reports whether the row's writer may still be about to put it: in a burst this is true of some row at any
// moment, and is no drift. A row that changed in the future was written before the database's clock was set back.
func changedLately(row task.Task, now clock) bool { return now().Sub(row.UpdatedAt).Abs() < writerTime }

// report counts and logs the n repairs of a pass; it logs nothing for an idle pass.
func (r *Reconciler) report(ctx context.Context, reason string, n int) {
	if n == 0 {
		return
	}
	r.metrics.repairs.WithLabelValues(reason).Add(float64(n))
	r.cfg.Logger.InfoContext(ctx, "index repaired", "reason", reason, "n", n)
}
