package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// pausedWorld has tasks of ann and bob, which are put off to one moment by a pause of each.
func pausedWorld(t *testing.T) (w *world, rows []task.Task, until time.Time) {
	t.Helper()
	w = newWorld(t, Config{})
	w.now = value(t)(w.rows.Now(t.Context(), nil))
	until = w.now.Add(time.Hour)
	var pauses []protocol.Pause
	for _, owner := range []string{"ann", "bob"} {
		due := w.timer(t, owner, "timer", -time.Minute)
		row := w.insert(t, due)[0]
		rows = append(rows, w.save(t, transition.PutOff(row, until, w.now)))
		pauses = append(pauses, protocol.Pause{PauseOf: protocol.PauseOf{Owner: owner}, Until: until, Made: w.now})
	}
	w.put(t, rows...)
	pipelinetest.Must(t, w.rows.PutPauses(t.Context(), w.rows.DB(), pauses))
	return w, rows, until
}

func TestResumeWakesWhatAPauseHasPutOff(t *testing.T) {
	t.Parallel()
	w, rows, until := pausedWorld(t)
	other := w.insert(t, w.timer(t, "ann", "other", 0))[0] // it stands at that moment too
	other.RunAt, other.DueAt, other.Version = until, until, other.Version+1
	w.put(t, w.save(t, other))
	pass := &pauses{r: w.Reconciler}
	w.run(t, pass.pass)
	if got := w.as(t, rows); got[0].Version != rows[0].Version {
		t.Errorf("woken during its pause: %+v", got[0])
	}
	if resumed, err := w.rows.ResumePause(t.Context(), w.rows.DB(), protocol.PauseOf{Owner: "ann"}, w.now); !resumed || err != nil {
		t.Fatal(resumed, err)
	}
	w.run(t, pass.pass)
	now := value(t)(w.rows.Now(t.Context(), nil))
	got := w.as(t, rows)
	if got[0].RunAt.After(now) || !got[0].DueAt.Equal(rows[0].DueAt) || got[1].Version != rows[1].Version {
		t.Errorf("after the resume of ann's: %+v", got)
	}
	if stands := w.as(t, []task.Task{other})[0]; !stands.RunAt.Equal(until) {
		t.Errorf("a task that was not put off is woken: %+v", stands)
	}
	w.wantTruth(t)

	for _, later := range []time.Duration{0, pauseKnown + time.Second, wakeInterval} { // a worker that has not read of the resume puts it off
		late := w.save(t, transition.PutOff(w.as(t, rows)[0], until, w.now))
		w.put(t, late)
		w.now = w.now.Add(later)
		w.run(t, pass.pass)
		if got := w.as(t, rows)[0]; got.RunAt.After(w.now.Add(time.Minute)) {
			t.Errorf("put off, and not woken %v later: %+v", later, got)
		}
	}
}

// A walk over more rows than a pass reads goes on in the next one.
func TestResumeOfACrowd(t *testing.T) {
	t.Parallel()
	w, rows, until := pausedWorld(t) // a pause of bob's ends then, too
	crowd := make([]task.Task, wakePages*smallPage+1)
	for i := range crowd {
		row := pending("bob", 0)
		row.ID = task.ID{1, byte(i >> 16), byte(i >> 8), byte(i)} // before ann's
		row.DueAt, row.RunAt = until, until
		crowd[i] = row
	}
	for i := 0; i < len(crowd); i += 500 {
		w.insert(t, crowd[i:min(len(crowd), i+500)]...)
	}
	last := w.as(t, rows)[:1]
	pipelinetest.Must(t, second(w.rows.ResumePause(t.Context(), w.rows.DB(), protocol.PauseOf{Owner: "ann"}, w.now)))
	pass := &pauses{r: w.Reconciler}
	for n := 0; w.run(t, pass.pass).More; n++ {
		if n > 3 {
			t.Fatal("the walk does not come to its end")
		}
	}
	if got := w.as(t, last)[0]; got.RunAt.Equal(until) {
		t.Error("ann's task is not woken behind bob's")
	}
}

func second[T any](_ T, err error) error { return err }

// Pauses that are over are forgotten; that a queue's has ended is written down.
func TestPausesThatAreOverAreForgotten(t *testing.T) {
	t.Parallel()
	w, _, until := pausedWorld(t)
	pipelinetest.Must(t, second(w.rows.Pause(t.Context(), w.rows.DB(), "default", w.now, until)))
	pass := &pauses{r: w.Reconciler}
	w.run(t, pass.pass)
	wantRows := func(pauses, requests int) {
		t.Helper()
		if n := w.rows.Number("SELECT COUNT(*) FROM duetime_pauses"); n != pauses {
			t.Errorf("%d pauses are left, want %d", n, pauses)
		}
		if n := w.rows.Number("SELECT COUNT(*) FROM duetime_requests"); n != requests {
			t.Errorf("%d requests are left, want %d", n, requests)
		}
	}
	wantRows(2, 1)
	w.now = until.Add(time.Second)
	w.run(t, pass.pass)
	wantRows(2, 1)
	w.now = w.now.Add(time.Millisecond)
	w.run(t, pass.pass)
	wantRows(0, 0)
	lines, err := w.rows.QueueHistory(t.Context(), "default", w.now)
	pipelinetest.Must(t, err)
	if len(lines) != 1 || lines[0].Name != protocol.EventResumed || lines[0].Actor != "daemon" {
		t.Errorf("history: %+v", lines)
	}
}
