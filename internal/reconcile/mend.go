package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	publishTime = time.Second // that dispatch may take to claim and publish a hint
	mendTries   = 4           // for tasks that keep changing
)

// errStillMoving says that some tasks changed during each try to mend them: their writers are at work.
var errStillMoving = errors.New("tasks keep moving")

// duePolicy says when a row whose hint may be under way must be in the due set.
type duePolicy int

const (
	allowAbsent  duePolicy = iota // the row may be absent from the due set
	putIfNowhere                  // the row may be absent if it is in the owner's set; otherwise it was never put
	putAlways                     // the row must be in the due set
)

// nowhere is the standing of a task that is in neither set.
var nowhere = protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore}

// mend compares rows with the index and mends the index, by the steps of the package comment. tasks only names the rows,
// which mend reads. It returns errStillMoving if a task changed during each try.
func (s *sweep) mend(ctx context.Context, reason string, tasks []task.Task, want duePolicy) error {
	total := 0
	defer func() { s.report(ctx, reason, total) }()
	for range mendTries {
		if len(tasks) == 0 {
			return nil
		}
		layout, err := s.layoutFor(ctx, reason)
		if err != nil {
			return err
		}
		repairs, rows, err := s.compare(ctx, layout, tasks, want)
		if err != nil || len(repairs) == 0 {
			return err
		}
		if want != putAlways && reason != feedReason {
			s.recordDrift(ctx, reason, layout, repairs, rows)
		}
		reached, n, err := s.index.Repair(ctx, repairs)
		total += n
		if err != nil {
			return err
		}
		if tasks, err = s.stillMoving(ctx, reached, n, rows); err != nil {
			return err
		}
	}
	if len(tasks) > 0 {
		return fmt.Errorf("mend %s and %d more: %w", tasks[0].ID, len(tasks)-1, errStillMoving)
	}
	return nil
}

// mendUnlessMoving is mend for passes that compare the tasks once more later: it leaves tasks that keep changing to their
// writers.
func (s *sweep) mendUnlessMoving(ctx context.Context, reason string, tasks []task.Task, want duePolicy) error {
	err := s.mend(ctx, reason, tasks, want)
	if errors.Is(err, errStillMoving) {
		return nil
	}
	return err
}

// mendUnlike mends the rows, just read, whose entries differ; comparing all rows costs one round trip. A row in neither
// set was never put, for example because another program inserted it for a past moment: no hint of it is under way.
func (s *sweep) mendUnlike(ctx context.Context, reason string, rows []task.Task) error {
	if len(rows) == 0 {
		return nil
	}
	layout, err := s.layoutFor(ctx, reason)
	if err != nil {
		return err
	}
	rows, err = s.rehomeMisplaced(ctx, layout, rows)
	if err != nil {
		return err
	}
	rows, seen, err := s.index.Standings(ctx, rows)
	if err != nil {
		return err
	}
	var absent, unlike []task.Task
	for i, row := range rows {
		switch right := s.right(layout, row, seen[i], putIfNowhere); {
		case right == seen[i]:
		case seen[i] == nowhere && right.Due != protocol.NoScore && !s.mayBeUnderWay(row): // a row whose hint is under way may have ended
			absent = append(absent, row)
		default:
			unlike = append(unlike, row)
		}
	}
	moved, err := s.fill(ctx, reason, absent)
	if err != nil {
		return err
	}
	return s.mendUnlessMoving(ctx, reason, append(unlike, moved...), putIfNowhere)
}

// fill puts rows that were in neither set. It returns the rows to mend: those that are in a set meanwhile, and those
// that have changed since they were read, whose own put or drop may have come before.
func (s *sweep) fill(ctx context.Context, reason string, absent []task.Task) ([]task.Task, error) {
	if len(absent) == 0 {
		return nil, nil
	}
	if reason != feedReason {
		s.recordMissing(ctx, reason, absent)
	}
	absent, otherwise, err := s.index.Fill(ctx, absent)
	if err != nil {
		return nil, err
	}
	s.report(ctx, reason, len(absent)-len(otherwise))
	_, moved, err := s.reread(ctx, absent)
	return append(otherwise, moved...), err
}

// compare reads the index, then the rows, and returns the repairs to make.
func (s *sweep) compare(ctx context.Context, l protocol.Layout, tasks []task.Task, want duePolicy) ([]protocol.Repair, map[task.ID]task.Task, error) {
	tasks, seen, err := s.index.Standings(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	rows, err := s.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	var repairs []protocol.Repair
	for i, t := range tasks {
		right := nowhere // for a task that was purged, never committed, or is in another shard or queue than its row
		if row, found := rows[t.ID]; found && row.Shard == t.Shard && protocol.SameQueue(row, t) {
			right = s.right(l, row, seen[i], want)
		}
		if right != seen[i] {
			repairs = append(repairs, protocol.Repair{Task: t, Seen: seen[i], Right: right})
		}
	}
	return repairs, rows, nil
}

// underWayUntil returns the moment up to which the hints of due rows may be under way, so that they may be absent from
// due.
func (s *sweep) underWayUntil() time.Time { return s.now().Add(protocol.MaxLead + publishTime) }

// mayBeUnderWay reports whether the row's hint may be under way.
func (s *sweep) mayBeUnderWay(row task.Task) bool { return row.RunAt.Before(s.underWayUntil()) }

// right returns the standing that a row must have.
func (s *sweep) right(l protocol.Layout, row task.Task, seen protocol.Standing, want duePolicy) protocol.Standing {
	score := protocol.ScoreOf(row)
	if !l.Keeps(score.RunAt(), s.now()) || want != putAlways && seen == nowhere && s.unfed(l, row) {
		return nowhere
	}
	due := score
	mayBeAbsent := want == allowAbsent || want == putIfNowhere && seen.Owner != protocol.NoScore
	if mayBeAbsent && s.mayBeUnderWay(row) && seen.Due == protocol.NoScore {
		due = protocol.NoScore
	}
	return protocol.Standing{Due: due, Owner: score}
}

// stillMoving returns the tasks to mend once more after a repair: those whose rows have changed since they were read, or
// all tasks if some standing had changed since it was read, so that its repair did nothing.
func (s *sweep) stillMoving(ctx context.Context, tasks []task.Task, done int, before map[task.ID]task.Task) ([]task.Task, error) {
	if done < len(tasks) || len(tasks) == 0 {
		return tasks, nil
	}
	after, err := s.rows(ctx, tasks)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return sameRow(after[t.ID], before[t.ID]) }), nil
}

// sameRow reports whether a row has not changed between two reads. A row that went to another shard keeps its version.
func sameRow(a, b task.Task) bool { return a.Version == b.Version && a.Shard == b.Shard }

// reread separates the tasks whose rows are still at the tasks' versions and in their shards from the others.
func (s *sweep) reread(ctx context.Context, tasks []task.Task) (still, moved []task.Task, err error) {
	after, err := s.rows(ctx, tasks)
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

// rows reads the tasks' rows.
func (r *Reconciler) rows(ctx context.Context, tasks []task.Task) (map[task.ID]task.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	rows, err := r.store.Entries(ctx, protocol.IDs(tasks))
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(tasks), err)
	}
	return protocol.ByID(rows), nil
}

// recordDrift counts repairs that a sweep is about to make, and raises the alarm. An entry beyond the horizon is no drift: the
// horizon may have changed.
func (s *sweep) recordDrift(ctx context.Context, reason string, l protocol.Layout, repairs []protocol.Repair, rows map[task.ID]task.Task) {
	s.alarm(ctx, reason, s.metrics.countDrift(slices.DeleteFunc(slices.Clone(repairs), func(rep protocol.Repair) bool {
		row, found := rows[rep.Task.ID]
		score := protocol.ScoreOf(row)
		beyond := !l.Keeps(score.RunAt(), s.now()) && (rep.Seen.Owner == score || rep.Seen.Due == score)
		return found && (s.changedLately(row) || beyond) || s.justMoved.has(rep.Task.ID)
	})))
}

// recordMissing counts rows that a sweep is about to put, and raises the alarm.
func (s *sweep) recordMissing(ctx context.Context, reason string, rows []task.Task) {
	var missing []protocol.Repair
	for _, row := range rows {
		if !s.changedLately(row) && !s.justMoved.has(row.ID) {
			missing = append(missing, protocol.Repair{Task: row, Seen: nowhere})
		}
	}
	s.alarm(ctx, reason, s.metrics.countDrift(missing))
}

// changedLately reports whether the row's writer may still be about to put it: in a burst this is true of some row at any
// moment, and is no drift. A row that changed in the future was written before the database's clock was set back.
func (s *sweep) changedLately(row task.Task) bool {
	return s.now().Sub(row.UpdatedAt).Abs() < writerTime
}

// report counts and logs the n repairs of a pass; it logs nothing for an idle pass.
func (r *Reconciler) report(ctx context.Context, reason string, n int) {
	if n == 0 {
		return
	}
	r.metrics.repairs.WithLabelValues(reason).Add(float64(n))
	r.cfg.Logger.InfoContext(ctx, "index repaired", "reason", reason, "n", n)
}
