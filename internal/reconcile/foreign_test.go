package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// No hint of a row is under way that another program inserted for a moment long past. The row is put at once.
func TestRowInsertedForAMomentThatIsPastIsPut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	for i, ago := range []time.Duration{time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
		row := pending("ann", -ago)
		row.UpdatedAt = base
		row = w.insert(t, row)[0]
		w.now = base.Add(sec(float64(2*i + 2)))
		w.run(t, new(changed).pass)
		w.wantStands(t, row)
	}
	silent := w.insert(t, pending("ann", -time.Hour))[0] // without the time of its insertion
	w.run(t, w.auditRows().pass)
	w.wantStands(t, silent)
}

func (w *world) wantStands(t *testing.T, row task.Task) {
	t.Helper()
	seen, err := w.index.Standings(t.Context(), []task.Task{row})
	if err != nil {
		t.Fatal(err)
	}
	if want := protocol.ScoreOf(row); seen[0] != (protocol.Standing{Due: want, Owner: want}) {
		t.Errorf("due at %v: stands at %+v, want %v", row.DueAt, seen[0], want)
	}
}

// puts is mustPut while the backlog is not known.
func (t overdueCheck) puts(row task.Task) bool {
	must, _ := t.mustPut(row, nil)
	return must
}

// A row that is due since 1970, with no other time known, is put once more within hours, not within years.
func TestVeryOldRowsComeAgain(t *testing.T) {
	t.Parallel()
	now := base
	check := overdueCheck{grace: 2 * time.Second, now: now, last: now.Add(-2 * time.Second)}
	row := task.Task{Owner: "ann", RunAt: time.UnixMilli(0)}
	for waited := time.Duration(0); !check.puts(row); waited += 2 * time.Second {
		if waited > 24*time.Hour {
			t.Fatal("not within a day")
		}
		check.now, check.last = check.now.Add(2*time.Second), check.now
	}
}

// A row whose time was past when it was inserted was not looked at before its insertion, however old its time is.
func TestRowsWrittenWithATimeLongPastAreDueFromTheirWrite(t *testing.T) {
	t.Parallel()
	const grace, every = 2 * time.Second, 20 * time.Second
	for _, behind := range []time.Duration{3 * time.Hour, 24 * time.Hour, 64 * 365 * 24 * time.Hour} {
		row := task.Task{Owner: "ann", RunAt: base.Add(-behind), UpdatedAt: base}
		if check := (overdueCheck{grace: grace, now: base.Add(every / 2), last: base.Add(-every / 2)}); !check.puts(row) {
			t.Errorf("%v behind its write: not put in the first pass after it", behind)
		}
		row.UpdatedAt = base.Add(time.Hour) // another program's clock: only run_at counts
		again := 0
		for at := base; at.Before(base.Add(time.Minute)); at = at.Add(every) {
			if (overdueCheck{grace: grace, now: at, last: at.Add(-every)}).puts(row) {
				again++
			}
		}
		if again > 1 {
			t.Errorf("%v behind, written in the future: put %d times in a minute", behind, again)
		}
	}
}
