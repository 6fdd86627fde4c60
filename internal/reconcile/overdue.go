package reconcile

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	patience     = 10 * time.Minute // the age from which no backlog explains an overdue row any more
	overduePages = 2                // pages of one stretch judged by one look at the backlog
	// overdueRounds is how often a pass looks at some of the newest rows and some of the older ones.
	overdueRounds = 2
	newestFor     = 30 * time.Second // how long a row counts among the newest once its grace has ended
	freshLag      = time.Second      // the age of a partition's oldest unread hint that steady load alone makes
	lostSteps     = 16               // how much closer the tries lie of a row whose hint is known to be lost
)

// overdue puts rows again that are past their time and don't stand in the due set with exactly their score: absent, or
// there at another time (a speed-up that committed and was never put). It leaves the absent ones of paused queues alone.
//
// A pass looks at a bounded number of rows: first at some of the newest, then at some of all that are older, in two laps
// that each go on where the pass before ended. So no queue's millions come before another queue's lost hint. Rows of paused
// queues are left out by the database; their standing is looked at by the way.
//
// The order of a look matters, because the event process may be publishing the very rows: the sets first, then the
// backlog, then (in mend) the rows. A row that was absent had been published by then; its hint is in the backlog, or was
// settled before the row is read.
type overdue struct {
	r             *Reconciler
	last          time.Time // the previous pass's now
	paused        map[string]time.Time
	resumed       map[string]time.Time // queues that were found resumed, and when
	newest, older lap
	left          task.Cursor   // the last row of all that was looked at for those of paused queues
	skipped       skippedShards // of the present pass
	throttle
}

func (o *overdue) pass(ctx context.Context, now clock) (loop.Result, error) {
	began := now()
	o.throttle, o.skipped = o.r.throttle(false), skippedShards{}
	if o.last.IsZero() {
		o.last = began.Add(-o.r.cfg.Interval)
	}
	paused, err := o.r.store.Paused(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	o.trackPauses(paused, began)
	check := overdueCheck{grace: o.r.cfg.Grace, now: began, paused: paused, resumed: o.resumed}
	to := began.Add(-o.r.cfg.Grace)
	from := to.Add(-newestFor)
	if err := o.leave(ctx, to, now); err != nil {
		return loop.Result{}, err
	}
	for range overdueRounds {
		if o.newest.under() || !o.older.under() || !began.Before(o.newest.began.Add(o.r.cfg.Interval)) {
			if err := o.walk(ctx, &o.newest, from, to, check, now); err != nil {
				return loop.Result{}, err
			}
		}
		if err := o.walk(ctx, &o.older, time.Time{}, from, check, now); err != nil {
			return loop.Result{}, err
		}
		if !o.newest.under() && !o.older.under() {
			break
		}
		if err := o.wait(ctx); err != nil {
			return loop.Result{}, err
		}
	}
	o.last = began
	return loop.Result{More: o.newest.under() || o.older.under()}, o.skipped.err()
}

// trackPauses takes in which queues are paused now.
func (o *overdue) trackPauses(paused map[string]time.Time, now time.Time) {
	if o.resumed == nil {
		o.resumed = map[string]time.Time{}
	}
	for queue := range o.paused {
		if _, still := paused[queue]; !still {
			o.resumed[queue] = now
		}
	}
	o.paused = paused
}

// walk looks at the next pages of a lap through the rows due in [from, to), and begins a new lap where it is at its end.
func (o *overdue) walk(ctx context.Context, l *lap, from, to time.Time, check overdueCheck, now clock) error {
	l.start(check.now, o.last)
	check.look = now()
	absent, err := o.absent(ctx, l, from, to, check.now, now)
	if err != nil {
		return err
	}
	if err := o.put(ctx, absent, l, check, now); err != nil {
		return err
	}
	l.passed()
	return nil
}

// leave mends where the rows of paused queues stand, some in each pass, and lets those be that are absent from the due set:
// their owners' lists must show them while they wait for an operator.
func (o *overdue) leave(ctx context.Context, to time.Time, now clock) error {
	if len(o.paused) == 0 {
		o.left = task.Cursor{}
		return nil
	}
	rows, err := o.r.store.Pending(ctx, time.Time{}, to, o.left, calmPage)
	if err != nil {
		return err
	}
	o.looked += len(rows)
	o.left = task.Cursor{}
	if len(rows) == calmPage {
		o.left = behind(rows)
	}
	_, err = o.sort(ctx, slices.DeleteFunc(rows, func(row task.Task) bool {
		_, paused := o.paused[row.Queue]
		return !paused
	}), now)
	return err
}

// absent reads some pages of a lap, mends rows that stand at another time, and returns those that are absent from the due
// set. Standing at another time is wrong whatever the backlog says: no hint of the row's own time was published.
func (o *overdue) absent(ctx context.Context, l *lap, from, to, began time.Time, now clock) ([]task.Task, error) {
	var absent []task.Task
	except := slices.Sorted(maps.Keys(o.paused))
	for range overduePages {
		rows, next, err := o.r.store.PendingExcept(ctx, except, from, to, l.next, page)
		if err != nil {
			return nil, err
		}
		if o.looked += len(rows); next != (task.Cursor{}) {
			o.looked += page - len(rows)
		}
		missing, err := o.sort(ctx, rows, now)
		if err != nil {
			return nil, err
		}
		absent = append(absent, missing...)
		if l.reach(from, next, to, began); next == (task.Cursor{}) {
			break
		}
	}
	return absent, nil
}

func (o *overdue) sort(ctx context.Context, rows []task.Task, now clock) (missing []task.Task, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	sound := o.skipped.reachable(rows)
	seen, err := o.r.index.Standings(ctx, sound)
	if err := o.skipped.collect(err, rows); err != nil {
		return nil, err
	}
	var wrong []task.Task
	for i, row := range sound {
		if o.skipped.has(row) {
			continue
		}
		if seen[i].Due == task.NoScore {
			missing = append(missing, row)
		}
		if o.r.right(row, seen[i], now, leaveFlying) != seen[i] {
			wrong = append(wrong, row)
		}
	}
	return missing, o.skipped.collect(o.r.settle(ctx, "overdue", wrong, now, leaveFlying), wrong)
}

// put puts those of the absent rows again that the check lets through.
func (o *overdue) put(ctx context.Context, rows []task.Task, l *lap, check overdueCheck, now clock) error {
	backlogs := map[string]Backlog{}
	var due []task.Task
	for _, row := range rows {
		b, asked := backlogs[row.Queue]
		if !asked {
			b = o.backlog(ctx, row.Queue)
			backlogs[row.Queue] = b
		}
		check.last = o.lookedAt(row, l)
		if check.mustPut(row, b) {
			due = append(due, row)
		}
	}
	for part := range slices.Chunk(due, page) {
		lost, _, err := o.r.reread(ctx, part) // in a burst most were settled between the look at them and the one at the backlog
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			o.r.alarm(ctx, "overdue", len(lost))
		}
		if err := o.skipped.collect(o.r.settle(ctx, "overdue", lost, now, putAlways), lost); err != nil {
			return err
		}
	}
	return nil
}

// lookedAt is when a row was last looked at before this pass, as far as is known.
func (o *overdue) lookedAt(row task.Task, l *lap) time.Time {
	at := task.Cursor{At: row.RunAt, ID: row.ID}
	last := later(o.newest.lookedAt(at), o.older.lookedAt(at))
	if last.IsZero() {
		return l.before
	}
	return last
}

// backlog is nil when it is not known.
func (o *overdue) backlog(ctx context.Context, queue string) Backlog {
	b, err := o.r.stream.Backlog(ctx, queue)
	if err != nil {
		o.r.cfg.Logger.WarnContext(ctx, "backlog unknown", "queue", queue, "err", err)
		return nil
	}
	return b
}

// overdueCheck decides whether an overdue row that is absent from the due set is put again in the pass of now.
type overdueCheck struct {
	grace     time.Duration
	now, last time.Time            // when this pass began, and when the row was looked at before
	look      time.Time            // when the backlog was read, or shortly before
	paused    map[string]time.Time // queues, each since when
	resumed   map[string]time.Time // queues, and when they were found resumed
}

// mustPut decides by the row's age since dueSince alone, so that daemons that take over from each other don't add up.
//
//   - The queue is paused: its rows wait for an operator, and their hints with them. Not now.
//   - Unread hints from before the row's grace ended wait in its partition: its own may be among them, so not before
//     patience is out.
//   - Its queue was resumed since the previous look, and its hint was lost before: now, however old it is.
//   - All hints of its partition were read, or the oldest unread one is younger than its own would be: its own is lost.
//     Now, and then at ages that grow by a few per cent, so that a row whose hint can't be published doesn't come back in
//     every pass.
//   - Else, and when the backlog is not known, at ages that double: a long outage must not flood Kafka.
func (t overdueCheck) mustPut(row task.Task, b Backlog) bool {
	if _, paused := t.paused[row.Queue]; paused {
		return false
	}
	since, key := t.dueSince(row), task.RouteKey(row.Owner, task.ScoreOf(row))
	age := t.now.Sub(since)
	explained := b != nil && b.Explains(key, since.Add(t.grace))
	if explained && age < patience {
		return false
	}
	if at, resumed := t.resumed[row.Queue]; resumed && t.last.Before(at) && b != nil && !explained {
		return true
	}
	steps := 1
	if b != nil && (b.Clear(key) || t.fresh(key, b)) {
		steps = lostSteps
	}
	return t.step(age, steps) != t.step(age-t.now.Sub(t.last), steps)
}

// dueSince is the moment from which the row could be found due: its time, or when it was written with a time already past.
func (t overdueCheck) dueSince(row task.Task) time.Time {
	if row.UpdatedAt.After(t.now) {
		return row.RunAt // another program's clock
	}
	return later(row.RunAt, row.UpdatedAt)
}

// fresh reports whether the partition's unread hints are all of this moment: under steady load some hint is always on its
// way, and none of them can be that of a row beyond its grace.
func (t overdueCheck) fresh(owner string, b Backlog) bool {
	return b.Explains(owner, t.look.Add(time.Minute)) && !b.Explains(owner, t.look.Add(-freshLag))
}

// aged is the age from which the tries no longer lie farther and farther apart: a row of another program may be due since 1970.
const aged = 24 * time.Hour

// step counts how often the age, in graces, has grown by the steps-th root of two; beyond aged, how many steps-ths of its
// twenty-fourth have gone by.
func (t overdueCheck) step(age time.Duration, steps int) int {
	if age < t.grace {
		return -1
	}
	if age > aged {
		return t.step(aged, steps) + int((age-aged)/(aged/24)*time.Duration(steps)/lostSteps)
	}
	return int(float64(steps) * math.Log2(float64(age)/float64(t.grace)))
}
