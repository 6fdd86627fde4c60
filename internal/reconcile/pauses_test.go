package reconcile

import (
	"fmt"
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

// Many pauses are resumed at once: each is walked, however many there are, and forgotten once no transaction can put off for it.
func TestManyPausesAreResumed(t *testing.T) {
	t.Parallel()
	w, rows, until := pausedWorld(t)
	var others []protocol.Pause
	for i := range 2*pausesPage + 1 {
		of := protocol.PauseOf{Owner: fmt.Sprint("bob", i)}
		others = append(others, protocol.Pause{PauseOf: of, Until: until.Add(time.Duration(i) * time.Second), Made: w.now})
	}
	pipelinetest.Must(t, w.rows.PutPauses(t.Context(), w.rows.DB(), others))
	w.rows.Exec("UPDATE duetime_pauses SET resumed_at = ?", w.now.UnixMilli())
	w.rows.Exec("UPDATE duetime_pauses SET resumed_at = ? WHERE owner = 'bob'", w.now.UnixMilli()+1) // the last one
	pass := &pauses{r: w.Reconciler}
	rounds := func() {
		for n := 0; w.run(t, pass.pass).More; n++ {
			if n > 2*(2*pausesPage+2)/passPages {
				t.Fatal("the round does not come to its end")
			}
		}
	}
	rounds()
	for _, row := range w.as(t, rows) {
		if row.RunAt.Equal(until) {
			t.Errorf("not woken: %+v", row)
		}
	}
	w.now = w.now.Add(putOffWithin + 2*time.Second)
	rounds()
	if n := w.rows.Number("SELECT COUNT(*) FROM duetime_pauses"); n != 0 {
		t.Errorf("%d resumed pauses are left", n)
	}
}

// A task for which another pause of the same end stands is left.
func TestResumeOfOneOfTwoPauses(t *testing.T) {
	t.Parallel()
	w, rows, until := pausedWorld(t)
	ofKind := protocol.Pause{PauseOf: protocol.PauseOf{Kind: rows[0].Kind}, Until: until, Made: w.now}
	pipelinetest.Must(t, w.rows.PutPauses(t.Context(), w.rows.DB(), []protocol.Pause{ofKind}))
	pipelinetest.Must(t, second(w.rows.ResumePause(t.Context(), w.rows.DB(), protocol.PauseOf{Owner: "ann"}, w.now)))
	pass := &pauses{r: w.Reconciler}
	w.run(t, pass.pass)
	if got := w.as(t, rows)[0]; got.Version != rows[0].Version {
		t.Errorf("woken while its kind is paused: %+v", got)
	}
	pipelinetest.Must(t, second(w.rows.ResumePause(t.Context(), w.rows.DB(), ofKind.PauseOf, w.now)))
	w.run(t, pass.pass)
	if got := w.as(t, rows)[0]; got.RunAt.Equal(until) {
		t.Errorf("not woken: %+v", got)
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
