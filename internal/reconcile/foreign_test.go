package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// A row that another program inserts for a moment long past has no hint under way: it is put at once.
func TestRowInsertedForAMomentThatIsPastIsPut(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		for i, ago := range []time.Duration{time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
			row := pending("ann", -ago)
			row.UpdatedAt = base
			row = w.insert(t, row)[0]
			w.now = base.Add(sec(float64(2*i + 2)))
			w.run(t, (&changed{r: w.Reconciler}).pass)
			w.wantStands(t, row)
		}
		silent := w.insert(t, pending("ann", -time.Hour))[0] // and does not say when
		w.run(t, w.auditRows().pass)
		w.wantStands(t, silent)
	})
}

func (w *world) wantStands(t *testing.T, row task.Task) {
	t.Helper()
	seen, err := w.index.Standings(t.Context(), []task.Task{row})
	if err != nil {
		t.Fatal(err)
	}
	if want := task.ScoreOf(row); seen[0] != (task.Standing{Due: want, Owner: want}) {
		t.Errorf("due at %v: stands at %+v, want %v", row.DueAt, seen[0], want)
	}
}

// A row that is due since 1970, and of which only its time is known, comes again within hours, not within years.
func TestVeryOldRowsComeAgain(t *testing.T) {
	t.Parallel()
	now := base
	turn := turn{grace: 2 * time.Second, now: now, last: now.Add(-2 * time.Second)}
	row := task.Task{Owner: "ann", RunAt: time.UnixMilli(0)}
	for waited := time.Duration(0); !turn.has(row, nil); waited += 2 * time.Second {
		if waited > 24*time.Hour {
			t.Fatal("not within a day")
		}
		turn.now, turn.last = turn.now.Add(2*time.Second), turn.now
	}
}
