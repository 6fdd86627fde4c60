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
	flight    = time.Second // a hint may be under way so long around its moment
	mendTries = 4           // how often tasks that keep moving are looked at again
)

// errStillMoving says that some tasks moved under every try to mend them: their writers are at work.
var errStillMoving = errors.New("tasks keep moving")

// clock returns the database's time: the moment read when the pass began, and what went by since. A long pass must not
// take a row whose moment has come meanwhile for one that should still stand in the due set.
type clock func() time.Time

// aim says what a pass wants of a row whose hint may be under way.
type aim int

const (
	leaveFlying aim = iota // absence from the due set is right for a row whose moment has come
	putUnknown             // so it is if the row stands in the owner's set: else nobody has ever put it
	putAlways              // it must stand in the due set whatever its moment
)

// nowhere is the standing of a task that is in neither set.
var nowhere = task.Standing{Due: task.NoScore, Owner: task.NoScore}

// mend compares the rows with the index and makes the index right, by the steps of the package comment. The rows given
// only name the tasks; they are read again. It answers errStillMoving when a task was moved under every try, and with a
// task.ShardsError once it has mended all but the tasks of those shards.
func (r *Reconciler) mend(ctx context.Context, reason string, tasks []task.Task, now clock, want aim) error {
	total := 0
	defer func() { r.report(ctx, reason, total) }()
	var skipped skippedShards
	for range mendTries {
		if len(tasks) == 0 {
			return skipped.err()
		}
		repairs, rows, err := r.compare(ctx, tasks, now, want)
		if err := skipped.collect(err, tasks); err != nil {
			return err
		}
		if len(repairs) == 0 {
			return skipped.err()
		}
		if want != putAlways {
			r.drifted(ctx, reason, repairs, rows, now)
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
	if len(tasks) > 0 && skipped.err() == nil { // tasks of failed shards are tried again anyway
		return fmt.Errorf("mend %s and %d more: %w", tasks[0].ID, len(tasks)-1, errStillMoving)
	}
	return skipped.err()
}

// settle is mend for the passes that come back anyway: tasks that keep moving are left to their writers until then.
func (r *Reconciler) settle(ctx context.Context, reason string, tasks []task.Task, now clock, want aim) error {
	err := r.mend(ctx, reason, tasks, now, want)
	if errors.Is(err, errStillMoving) {
		return nil
	}
	return err
}

// mendUnlike mends those of the rows that the index does not hold as they were just read; the others cost one round trip. A row
// that stands nowhere was put by nobody, as when another program has inserted it for a moment that had come: no hint of it is
// under way. A
// task.ShardsError names the shards whose rows were left out.
func (r *Reconciler) mendUnlike(ctx context.Context, reason string, rows []task.Task, now clock) error {
	if len(rows) == 0 {
		return nil
	}
	var skipped skippedShards
	seen, err := r.index.Standings(ctx, rows)
	if err := skipped.collect(err, rows); err != nil {
		return fmt.Errorf("read %d standings: %w", len(rows), err)
	}
	var absent, unlike []task.Task
	for i, row := range rows {
		if skipped.has(row) {
			continue
		}
		switch right := r.right(row, seen[i], now, putUnknown); {
		case right == seen[i]:
		case seen[i] == nowhere && right.Due != task.NoScore && !flying(row, now): // one that flies may have ended since
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
	if err := skipped.collect(r.settle(ctx, reason, unlike, now, putUnknown), unlike); err != nil {
		return err
	}
	return skipped.err()
}

// fill adds rows that stood in neither set, and returns those to mend: what stands there meanwhile, and what has moved
// since it was read, whose own put or drop may have come before.
func (r *Reconciler) fill(ctx context.Context, reason string, absent []task.Task, now clock) ([]task.Task, error) {
	if len(absent) == 0 {
		return nil, nil
	}
	r.missing(ctx, reason, absent, now)
	var skipped skippedShards
	otherwise, err := r.index.Fill(ctx, absent)
	if err := skipped.collect(err, absent); err != nil {
		return nil, fmt.Errorf("fill %d entries: %w", len(absent), err)
	}
	absent = slices.DeleteFunc(absent, skipped.has)
	r.report(ctx, reason, len(absent)-len(otherwise))
	moved, err := r.moved(ctx, absent)
	if err != nil {
		return nil, err
	}
	return append(otherwise, moved...), skipped.err()
}

// compare reads the index, then the rows, and says what must be replaced. With a task.ShardsError it has compared all but
// the tasks of those shards.
func (r *Reconciler) compare(ctx context.Context, tasks []task.Task, now clock, want aim) ([]task.Repair, map[task.ID]task.Task, error) {
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
		right := nowhere // purged, never committed, or in a shard or queue that is not the row's: its names suffice to remove it
		if row, found := rows[t.ID]; found && row.Shard == t.Shard && task.SameQueue(row, t) {
			right = r.right(row, seen[i], now, want)
		}
		if right != seen[i] {
			repairs = append(repairs, task.Repair{Task: t, Seen: seen[i], Right: right})
		}
	}
	return repairs, rows, skipped.err()
}

// flying reports whether the row's hint may be under way.
func flying(row task.Task, now clock) bool { return row.RunAt.Before(landing(now)) }

// right says where a row must stand.
func (r *Reconciler) right(row task.Task, seen task.Standing, now clock, want aim) task.Standing {
	score := task.ScoreOf(row)
	due := score
	left := want == leaveFlying || want == putUnknown && seen.Owner != task.NoScore
	if left && flying(row, now) && seen.Due == task.NoScore {
		due = task.NoScore
	}
	return task.Standing{Due: due, Owner: score}
}

// stillMoving returns the tasks that must be looked at once more after a repair: those whose rows have changed since they were
// read, or all when some standing had moved on since it was read, so that its repair did nothing.
func (r *Reconciler) stillMoving(ctx context.Context, repairs []task.Repair, done int, before map[task.ID]task.Task) ([]task.Task, error) {
	tasks := make([]task.Task, len(repairs))
	for i, rep := range repairs {
		tasks[i] = rep.Task
		tasks[i].Version = before[rep.Task.ID].Version
	}
	if done < len(repairs) || len(tasks) == 0 {
		return tasks, nil
	}
	return r.moved(ctx, tasks)
}

// moved returns those of the tasks whose rows are no longer at their versions.
func (r *Reconciler) moved(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	_, moved, err := r.reread(ctx, tasks)
	return moved, err
}

// reread parts the tasks into those whose rows are still at their versions, and the others.
func (r *Reconciler) reread(ctx context.Context, tasks []task.Task) (still, moved []task.Task, err error) {
	after, err := r.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tasks {
		if after[t.ID].Version == t.Version {
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

// drifted takes note of repairs that a sweep is about to make.
func (r *Reconciler) drifted(ctx context.Context, reason string, repairs []task.Repair, rows map[task.ID]task.Task, now clock) {
	r.noted(ctx, reason, r.metrics.drifted(slices.DeleteFunc(slices.Clone(repairs), func(rep task.Repair) bool {
		row, found := rows[rep.Task.ID]
		return found && fresh(row, now)
	})))
}

// missing takes note of rows that a sweep is about to add.
func (r *Reconciler) missing(ctx context.Context, reason string, rows []task.Task, now clock) {
	r.noted(ctx, reason, r.metrics.absent(slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return fresh(row, now) })))
}

func (r *Reconciler) noted(ctx context.Context, reason string, drift int) {
	if drift > 0 {
		r.alarm(ctx, reason, drift)
	}
}

// fresh reports whether the row changed so lately that its writer may still be at the index: in a burst that is so of some
// row at any moment, and no drift. A row in the future was written before the database's clock was set back.
func fresh(row task.Task, now clock) bool { return now().Sub(row.UpdatedAt).Abs() < settleTime }

// report counts and logs what a pass changed; an idle pass says nothing.
func (r *Reconciler) report(ctx context.Context, reason string, n int) {
	if n == 0 {
		return
	}
	r.metrics.repairs.WithLabelValues(reason).Add(float64(n))
	r.cfg.Logger.InfoContext(ctx, "index repaired", "reason", reason, "n", n)
}
