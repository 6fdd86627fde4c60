package reconcile

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	patience     = 10 * time.Minute // the age from which no backlog explains an overdue row any more
	overduePages = 10               // pages judged by one look at the backlog
	freshLag     = time.Second      // the age of a partition's oldest unread hint that steady load alone makes
	lostSteps    = 16               // how much closer the tries lie of a row whose hint is known to be lost
)

// overdue puts rows again that are past their time and don't stand in the due set with exactly their score: absent, or
// there at another time (a speed-up that committed and was never put). It leaves the absent ones of a paused queue alone.
//
// The order of a look matters, because the event process may be publishing the very rows: the sets first, then the
// backlog, then (in mend) the rows. A row that was absent had been published by then; its hint is in the backlog, or was
// settled before the row is read.
type overdue struct {
	r      *Reconciler
	last   time.Time // the previous pass's now
	paused map[string]time.Time
	gone   gaps
	breath
}

func (o *overdue) pass(ctx context.Context, now clock) (loop.Result, error) {
	began := now()
	o.breath, o.gone = o.r.breath(false), gaps{}
	turn := turn{grace: o.r.cfg.Grace, now: began, last: o.last, before: o.paused}
	if o.last.IsZero() {
		turn.last = began.Add(-o.r.cfg.Interval)
	}
	blind := map[string]bool{} // queues whose backlog could not be read in this pass
	var after task.Cursor
	for {
		var err error
		if turn.paused, err = o.r.store.Paused(ctx); err != nil { // each time: between pages the pass may rest
			return loop.Result{}, err
		}
		turn.look = now()
		absent, next, err := o.absent(ctx, began.Add(-o.r.cfg.Grace), after, now)
		if err != nil {
			return loop.Result{}, err
		}
		if err := o.put(ctx, absent, turn, blind, now); err != nil {
			return loop.Result{}, err
		}
		if next == (task.Cursor{}) {
			o.last, o.paused = began, turn.paused
			return loop.Result{}, o.gone.err()
		}
		if err := o.rest(ctx); err != nil {
			return loop.Result{}, err
		}
		after = next
	}
}

// absent reads some pages of rows that are due before the moment, mends those that stand at another time, and returns
// those that are absent from the due set. Standing at another time is wrong whatever the backlog says: no hint of the
// row's own time was published. A zero cursor says that there are no more.
func (o *overdue) absent(ctx context.Context, before time.Time, after task.Cursor, now clock) ([]task.Task, task.Cursor, error) {
	var absent []task.Task
	for range overduePages {
		rows, err := o.r.store.Pending(ctx, time.Time{}, before, after, page)
		if err != nil {
			return nil, after, err
		}
		missing, err := o.sort(ctx, rows, now)
		if err != nil {
			return nil, after, err
		}
		absent = append(absent, missing...)
		if len(rows) < page {
			return absent, task.Cursor{}, nil
		}
		after = behind(rows)
	}
	return absent, after, nil
}

func (o *overdue) sort(ctx context.Context, rows []task.Task, now clock) (missing []task.Task, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	o.looked += len(rows)
	sound := o.gone.sound(rows)
	seen, err := o.r.index.Standings(ctx, sound)
	if err := o.gone.take(err, rows); err != nil {
		return nil, err
	}
	var wrong []task.Task
	for i, row := range sound {
		if o.gone.has(row) {
			continue
		}
		if seen[i].Due == task.NoScore {
			missing = append(missing, row)
		}
		if o.r.right(row, seen[i], now, leaveFlying) != seen[i] {
			wrong = append(wrong, row)
		}
	}
	return missing, o.gone.take(o.r.settle(ctx, "overdue", wrong, now, leaveFlying), wrong)
}

// put puts those of the absent rows again whose turn has come.
func (o *overdue) put(ctx context.Context, rows []task.Task, turn turn, blind map[string]bool, now clock) error {
	backlogs := map[string]Backlog{}
	var again []task.Task
	for _, row := range rows {
		b, asked := backlogs[row.Queue]
		if !asked {
			b = o.backlog(ctx, row.Queue, blind)
			backlogs[row.Queue] = b
		}
		if turn.has(row, b) {
			again = append(again, row)
		}
	}
	for part := range slices.Chunk(again, page) {
		lost, _, err := o.r.reread(ctx, part) // in a burst most were settled between the look at them and the one at the backlog
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			o.r.alarm(ctx, "overdue", len(lost))
		}
		if err := o.gone.take(o.r.settle(ctx, "overdue", lost, now, putAlways), lost); err != nil {
			return err
		}
	}
	return nil
}

// backlog is nil when it is not known.
func (o *overdue) backlog(ctx context.Context, queue string, blind map[string]bool) Backlog {
	if blind[queue] {
		return nil
	}
	b, err := o.r.stream.Backlog(ctx, queue)
	if err != nil {
		blind[queue] = true
		o.r.cfg.Logger.WarnContext(ctx, "backlog unknown", "queue", queue, "err", err)
		return nil
	}
	return b
}

// turn decides whether an overdue row that is absent from the due set is put again in the pass of now.
type turn struct {
	grace          time.Duration
	now, last      time.Time            // when this pass began, and the one before
	look           time.Time            // when the backlog was read
	paused, before map[string]time.Time // queues, now and in the previous pass
}

// has says so by the row's age alone, so that daemons that take over from each other don't add up.
//
//   - The queue is paused: its rows wait for an operator, and their hints with them. Not now.
//   - Unread hints from before the row's grace ended wait in its partition: its own may be among them, so not before
//     patience is out.
//   - Its queue was resumed since the previous pass, and its hint was lost before: now, however old it is.
//   - All hints of its partition were read, or the oldest unread one is younger than its own would be: its own is lost.
//     Now, and then at ages that grow by a few per cent, so that a row whose hint can't be published doesn't come back in
//     every pass.
//   - Else, and when the backlog is not known, at ages that double: a long outage must not flood Kafka.
func (t turn) has(row task.Task, b Backlog) bool {
	if _, paused := t.paused[row.Queue]; paused {
		return false
	}
	age := t.now.Sub(row.RunAt)
	explained := b != nil && b.Explains(row.Owner, row.RunAt.Add(t.grace))
	if explained && age < patience {
		return false
	}
	if _, resumed := t.before[row.Queue]; resumed && b != nil && !explained {
		return true
	}
	steps := 1
	if b != nil && (b.Clear(row.Owner) || t.fresh(row.Owner, b)) {
		steps = lostSteps
	}
	return t.step(age, steps) != t.step(age-t.now.Sub(t.last), steps)
}

// fresh reports whether the partition's unread hints are all of this moment: under steady load some hint is always on its
// way, and none of them can be that of a row beyond its grace.
func (t turn) fresh(owner string, b Backlog) bool {
	return b.Explains(owner, t.look.Add(time.Minute)) && !b.Explains(owner, t.look.Add(-freshLag))
}

// step counts how often the age, in graces, has grown by the steps-th root of two.
func (t turn) step(age time.Duration, steps int) int {
	if age < t.grace {
		return -1
	}
	return int(float64(steps) * math.Log2(float64(age)/float64(t.grace)))
}
