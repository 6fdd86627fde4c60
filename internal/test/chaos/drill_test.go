package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	late     = 250 * time.Millisecond // a task this long past its time shows that a fault is felt, unless the row says otherwise
	quiet    = time.Second            // without a late task, after which a fault counts as healed
	lead     = 50 * time.Millisecond  // event.lead: a hint is out this long ahead at least
	leadMost = 3 * lead               // and at most, where there is no crowd
)

// drill breaks a world while it is played in, and remembers when.
type drill struct {
	*world

	crowd    *crowd
	leave    leave
	also     func(*verdict) // judges what the row itself has done; nil: nothing
	outcomes []outcome
	notes    []string
	planted  int // calls that were never made, but stand for what SQL made
	began    time.Time
	slack    time.Duration // beyond the bounds, where the machine may be busy with something else
	felt     time.Duration // past its time a task shows that a fault is felt
}

// outcome is one fault and how it healed.
type outcome struct {
	name     string
	from, to int64         // the window in which tasks may be late, Unix ms on the database's clock
	healed   time.Duration // from the fault's end until no task was late
	within   time.Duration // the bound
}

func newDrill(t *testing.T, s setup, f form) *drill {
	t.Helper()
	s.meal, s.pets = cmp.Or(s.meal, 10*time.Second), cmp.Or(s.pets, 3*f.rate)
	d := &drill{world: newWorld(t, s), slack: f.slack, felt: cmp.Or(s.late, f.late, late)}
	d.crowd = newCrowd(s.pets, f.rate, d.game.URL(t, "game"))
	d.crowd.play()
	t.Cleanup(func() {
		if !d.crowd.ended() {
			d.crowd.end()
		}
	})
	pipelinetest.Await(t, "meals to end", func() bool { return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 1`) > s.pets/4 })
	d.becomeQuiet(t, "the first meals", time.Minute) // cold processes are slow: a fault is to be felt, not they
	d.began = time.Now()
	return d
}

// note keeps something worth telling beside the figures.
func (d *drill) note(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	d.notes = append(d.notes, text)
}

// count answers a question of one number.
func (w *world) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	pipelinetest.Must(t, w.db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// text reads one string around all proxies.
func (w *world) text(t *testing.T, query string) string {
	t.Helper()
	var s string
	pipelinetest.Must(t, w.db.QueryRowContext(t.Context(), query).Scan(&s))
	return s
}

// exec changes something around all proxies.
func (w *world) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := w.db.ExecContext(t.Context(), query, args...)
	pipelinetest.Must(t, err)
}

// clock is the database's time in Unix ms, by what is known of it: it goes on while the database is away.
func (d *drill) clock() int64 { return d.crowd.now().UnixMilli() }

// overdue counts the pending tasks that are late by more than a moment.
func (w *world) overdue(ctx context.Context, by time.Duration) (int, error) {
	var n int
	err := w.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - ?
		AND kind NOT IN ('chaos.limited', '`+orderKind+`')`, // which are late by intent
		by.Milliseconds()).Scan(&n)
	return n, err
}

// fault breaks something and waits until no task is late any more. inject returns when the fault has ended: from there
// on it must heal within a bound. How long it took is read from the journal.
func (d *drill) fault(t *testing.T, name string, within time.Duration, inject func()) {
	t.Helper()
	from := d.clock()
	inject()
	end := d.clock()
	d.becomeQuiet(t, name, within+d.slack+30*time.Second)
	last := d.lastLate(t, from)
	healed := max(end, last.at)
	o := outcome{name, from - d.felt.Milliseconds(), healed, time.Duration(healed-end) * time.Millisecond, within}
	d.outcomes = append(d.outcomes, o)
	t.Logf("%s: took %v, healed %v after its end (wanted within %v)", name, time.Duration(end-from)*time.Millisecond, o.healed, within)
	if o.healed > within+d.slack {
		t.Errorf("%s: healed %v after its end, want within %v; the last late task, in ms after the fault's begin:%s",
			name, o.healed, within, d.story(t, last.task, from))
	}
}

// becomeQuiet waits until no task was late for a while: for longer than it takes until a fault that goes on is felt. A world
// that never heals is left to the oracle.
func (d *drill) becomeQuiet(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	since, n := time.Now(), 0
	for deadline := time.Now().Add(limit); time.Since(since) < quiet+d.felt-late; time.Sleep(20 * time.Millisecond) {
		var err error
		if n, err = d.overdue(t.Context(), d.felt); err != nil || n > 0 {
			since = time.Now()
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: still %d late tasks after %v (%v)", name, n, limit, err)
			return
		}
	}
}

// lastLate returns the last late effect of the tasks that were due from a moment on; none is the zero line.
func (d *drill) lastLate(t *testing.T, from int64) (last line) {
	t.Helper()
	lines, err := readLines(t.Context(), d.db, from-lead.Milliseconds())
	pipelinetest.Must(t, err)
	made := map[string]int64{}
	for _, l := range lines {
		switch l.event {
		case fed, "auto_fed":
			made[l.task] = l.at
		case "meal_finished":
			if l.due >= from-lead.Milliseconds() && l.at-max(l.due, made[l.task]) > d.felt.Milliseconds() && l.at > last.at {
				last = l
			}
		}
	}
	return last
}

// story is all that the journal says about a task, to find out why it was late.
func (d *drill) story(t *testing.T, task string, from int64) string {
	t.Helper()
	lines, err := readLines(t.Context(), d.db, 0)
	pipelinetest.Must(t, err)
	var text strings.Builder
	for _, l := range lines {
		if l.task == task {
			fmt.Fprintf(&text, "\n  %d: %s, version %d, due %d", l.at-from, l.event, l.version, l.due-from)
		}
	}
	return text.String()
}

// look reads the world as it is now.
func (d *drill) look(t *testing.T) *verdict {
	t.Helper()
	h, err := readHistory(t.Context(), d.db)
	pipelinetest.Must(t, err)
	calls, _ := d.crowd.all()
	return judge(h, calls, d.leave)
}

// finish ends the game, waits until nothing that is due is pending, and judges.
func (d *drill) finish(t *testing.T) result {
	t.Helper()
	ended := time.Now()
	d.crowd.end()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		n, err := d.overdue(t.Context(), 100*time.Millisecond)
		pipelinetest.Must(t, err)
		if n == 0 {
			break
		}
	}
	v := d.look(t)
	if d.also != nil {
		d.also(v)
	}
	for _, kind := range v.kinds() {
		for _, text := range kind.cases[:min(len(kind.cases), 10)] {
			t.Errorf("%s: %s", kind.name, text)
		}
		if n := len(kind.cases) - 10; n > 0 {
			t.Errorf("%s: and %d more", kind.name, n)
		}
	}
	calls, wrong := d.crowd.all()
	for _, text := range wrong[:min(len(wrong), 10)] {
		t.Errorf("an answer that the API must never give: %s", text)
	}
	d.drift(t)
	d.memory.bounded(t, d)
	return result{
		verdict: v, calls: len(calls) - d.planted, rate: callsASecond(calls, d.began, ended),
		outcomes: d.outcomes, notes: d.notes, lags: d.lags(v),
	}
}

// drift wants the index to agree with the rows once all is quiet.
func (d *drill) drift(t *testing.T) {
	t.Helper()
	var code int
	var v pipelinetest.Verified
	for deadline := time.Now().Add(30 * time.Second); ; {
		if code, v = d.Verify(t); code == 0 || d.leave.deadMayBe && v.Overdue+v.Missing+v.Extra == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("verify exits %d: %+v", code, v)
			return
		}
	}
}

// lags sorts the lags of all meals that were not waiting in a fault's window.
func (d *drill) lags(v *verdict) []time.Duration {
	var all []time.Duration
	for _, m := range v.meals {
		if m.ate() && !slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.from <= m.at && m.due <= o.to }) {
			all = append(all, m.lag())
		}
	}
	slices.Sort(all)
	return all
}

// rank takes a percentile by nearest rank.
func rank(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}
