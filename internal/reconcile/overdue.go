package reconcile

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxExplainedAge = 10 * time.Minute // no backlog explains why an older row is overdue
	overduePages    = 4                // of each lap that a pass reads, before it looks at the backlog
	newestTime      = 30 * time.Second // after its grace, in which a row counts among the newest
	freshLag        = time.Second      // under steady load, the oldest unread hint of a partition may have this age
	lostSteps       = 16               // tries of a row for each doubling of its age, if its hint is lost
)

// overdue puts rows again that are past their time and not in the due set with exactly their score: absent, or in the
// set at another time (a speed-up that committed and was never put). It does not put absent rows of paused queues.
//
// A pass looks at a bounded number of rows: first at some of the newest, then at some older ones, in two laps. Each lap
// goes on where the previous pass ended. So a queue with millions of rows does not delay another queue's lost hint. The
// database leaves out rows of paused queues; mendPaused compares these.
//
// The order of reads matters, because the event process may be publishing these very rows: first the sets, then the
// backlog, then (in mend) the rows. A row that was absent from the sets was published before: its hint is in the
// backlog, or was settled before the row is read.
type overdue struct {
	last          time.Time // when the previous pass began
	paused        map[string]time.Time
	resumed       map[string]time.Time // by queue: when a pass found it resumed
	newest, older lap
	pausedRows    walk // of mendPaused
}

func (o *overdue) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	began := s.now()
	if o.last.IsZero() {
		o.last = began.Add(-s.cfg.Interval)
	}
	paused, err := s.store.Paused(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	o.trackPauses(paused, began)
	check := overdueCheck{grace: s.cfg.Grace, now: began, paused: paused, resumed: o.resumed}
	to := began.Add(-s.cfg.Grace)
	from := to.Add(-newestTime)
	floor, err := s.store.Floor(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	if err := o.mendPaused(ctx, s, floor, to); err != nil {
		return loop.Result{}, err
	}
	if o.newest.underWay() || !o.older.underWay() || !began.Before(o.newest.began.Add(s.cfg.Interval)) {
		if err := o.goOn(ctx, s, &o.newest, from, to, check); err != nil {
			return loop.Result{}, err
		}
	}
	if err := o.goOn(ctx, s, &o.older, floor, from, check); err != nil {
		return loop.Result{}, err
	}
	o.last = began
	return loop.Result{More: o.newest.underWay() || o.older.underWay()}, nil
}

// trackPauses records which queues are paused now, and which were resumed since the previous pass.
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

// goOn looks at the next pages of a lap through the rows due in [from, to), or begins a new lap. An entry with another time is
// wrong whatever the backlog says: no hint for the row's own time was published.
func (o *overdue) goOn(ctx context.Context, s *sweep, l *lap, from, to time.Time, check overdueCheck) error {
	l.start(check.now, o.last)
	begins := later(from, l.after.At)
	read := s.pending(from, to, page, slices.Sorted(maps.Keys(o.paused))...)
	var absent []task.Task
	_, err := l.pages(ctx, s, read, upTo(overduePages), func(rows []task.Task) error {
		missing, err := s.mendMisplaced(ctx, rows)
		absent = append(absent, missing...)
		return err
	})
	if err != nil {
		return err
	}
	check.look = s.now()
	if err := o.put(ctx, s, absent, l, check); err != nil {
		return err
	}
	l.record(begins, to, check.now)
	return nil
}

// mendPaused mends entries of paused queues' rows, some in each pass: their owners' lists must show these tasks while
// they wait for an operator. It does not put rows that are absent from the due set.
func (o *overdue) mendPaused(ctx context.Context, s *sweep, from, to time.Time) error {
	if len(o.paused) == 0 {
		o.pausedRows = walk{}
		return nil
	}
	_, err := o.pausedRows.pages(ctx, s, s.pending(from, to, smallPage), upTo(1), func(rows []task.Task) error {
		_, err := s.mendMisplaced(ctx, slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool {
			_, paused := o.paused[row.Queue]
			return !paused
		}))
		return err
	})
	return err
}

// mendMisplaced mends entries that differ from their rows, and returns the rows that are absent from the due set.
func (s *sweep) mendMisplaced(ctx context.Context, rows []task.Task) (missing []task.Task, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	rows, seen, err := s.index.Standings(ctx, rows)
	if err != nil {
		return nil, err
	}
	layout, err := s.layoutFor(ctx, "overdue")
	if err != nil {
		return nil, err
	}
	var wrong []task.Task
	for i, row := range rows {
		if seen[i].Due == protocol.NoScore {
			missing = append(missing, row)
		}
		if s.right(layout, row, seen[i], allowAbsent) != seen[i] {
			wrong = append(wrong, row)
		}
	}
	return missing, s.mendUnlessMoving(ctx, "overdue", wrong, allowAbsent)
}

// put puts the absent rows again for which mustPut says so. Lost hints raise the alarm; rows that may wait in a backlog don't: it
// may last for hours, and nothing may be wrong.
func (o *overdue) put(ctx context.Context, s *sweep, rows []task.Task, l *lap, check overdueCheck) error {
	backlogs := map[string]Backlog{}
	var due []task.Task
	lost := map[task.ID]bool{}
	for _, row := range rows {
		b, asked := backlogs[row.Queue]
		if !asked {
			b = s.backlog(ctx, row.Queue)
			backlogs[row.Queue] = b
		}
		check.last = o.lookedAt(row, l)
		must, isLost := check.mustPut(row, b)
		if must {
			due = append(due, row)
			lost[row.ID] = isLost
		}
	}
	for part := range slices.Chunk(due, page) {
		still, _, err := s.reread(ctx, part) // in a burst most were settled before the backlog was read
		if err != nil {
			return err
		}
		n := 0
		for _, row := range still {
			if lost[row.ID] {
				n++
			}
		}
		s.alarm(ctx, "overdue", n)
		if err := s.mendUnlessMoving(ctx, "overdue", still, putAlways); err != nil {
			return err
		}
	}
	return nil
}

// lookedAt returns when a row was last looked at before this pass, as far as is known.
func (o *overdue) lookedAt(row task.Task, l *lap) time.Time {
	at := protocol.Cursor{At: row.RunAt, ID: row.ID}
	last := later(o.newest.lookedAt(at), o.older.lookedAt(at))
	if last.IsZero() {
		return l.before
	}
	return last
}

// backlog returns the queue's backlog; nil if it is not known.
func (s *sweep) backlog(ctx context.Context, queue string) Backlog {
	b, err := s.stream.Backlog(ctx, queue)
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "backlog unknown", "queue", queue, "err", err)
		return nil
	}
	return b
}

// overdueCheck decides whether this pass puts an overdue row that is absent from the due set.
type overdueCheck struct {
	grace     time.Duration
	now, last time.Time            // when this pass began, and when the row was last looked at
	look      time.Time            // shortly before the backlog was read
	paused    map[string]time.Time // by queue: since when
	resumed   map[string]time.Time // by queue: when a pass found it resumed
}

// mustPut reports whether this pass puts the row, and whether the row's hint is known to be lost. It decides by the row's age
// since dueSince alone, so that the puts of daemons that replace each other don't add up.
//
//   - The queue is paused: no. Its rows and their hints wait for an operator.
//   - The row's partition has unread hints from before the row's grace ended: not before maxExplainedAge, since the row's
//     hint may be among them.
//   - The queue was resumed since the row was last looked at, and the row's hint is lost: yes, at any age.
//   - All hints of the partition were read, or the oldest unread hint is younger than the row's own would be: the row's hint
//     is lost. Yes, and then at ages that grow by a few per cent, so that a row whose hint can't be published is not put in
//     every pass.
//   - Else, and if the backlog is not known: at ages that double. A long outage must not flood Kafka.
func (t overdueCheck) mustPut(row task.Task, b Backlog) (must, lost bool) {
	if _, paused := t.paused[row.Queue]; paused {
		return false, false
	}
	since, key := t.dueSince(row), protocol.RouteKey(protocol.Route(row.Owner, row.OrderKey), protocol.ScoreOf(row))
	age := t.now.Sub(since)
	explained := b != nil && b.Explains(key, since.Add(t.grace))
	if explained && age < maxExplainedAge {
		return false, false
	}
	if at, resumed := t.resumed[row.Queue]; resumed && t.last.Before(at) && b != nil && !explained {
		return true, true
	}
	steps := 1
	if lost = b != nil && (b.Clear(key) || t.onlyFresh(key, b)); lost {
		steps = lostSteps
	}
	return t.step(age, steps) != t.step(age-t.now.Sub(t.last), steps), lost
}

// dueSince returns the moment from which the row was due: its time, or when it was written with a past time.
func (t overdueCheck) dueSince(row task.Task) time.Time {
	if row.UpdatedAt.After(t.now) {
		return row.RunAt // updated_at comes from another program's clock
	}
	return later(row.RunAt, row.UpdatedAt)
}

// onlyFresh reports whether all unread hints of the partition are younger than freshLag: under steady load some hint is
// always under way. None of these can be the hint of a row past its grace.
func (t overdueCheck) onlyFresh(owner string, b Backlog) bool {
	return b.Explains(owner, t.look.Add(time.Minute)) && !b.Explains(owner, t.look.Add(-freshLag))
}

// maxDoublingAge is the age from which the intervals between tries no longer grow: another program's row may be due
// since 1970.
const maxDoublingAge = 24 * time.Hour

// step counts the tries up to an age: steps for each doubling of the age since grace. Beyond maxDoublingAge it counts
// steps/lostSteps tries an hour.
func (t overdueCheck) step(age time.Duration, steps int) int {
	if age < t.grace {
		return -1
	}
	if age > maxDoublingAge {
		return t.step(maxDoublingAge, steps) + int((age-maxDoublingAge)/(maxDoublingAge/24)*time.Duration(steps)/lostSteps)
	}
	return int(float64(steps) * math.Log2(float64(age)/float64(t.grace)))
}
