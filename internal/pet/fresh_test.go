package pet_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// A pet is shown as it is at this moment, though no worker has run what was due: the first meal has ended, and so has the one that a
// card began at its end.
func TestGetIsFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	first := w.act(id, "feed").Meal
	w.act(id, "autofeed")
	promised := w.now().Add(-start.Meal - time.Hour)
	w.due(promised, first.TaskID)
	p := w.see(id)
	if p.MealsEaten != 2 || p.Meal != nil || p.AutofeedArmed != 0 {
		t.Errorf("shows %+v, meal %+v; want two meals eaten", p, p.Meal)
	}
	lines := w.journal(id)
	if len(lines) != 5 {
		t.Fatalf("the journal has %+v", lines)
	}
	second := promised.Add(start.Meal).UnixMilli()
	for i, want := range []entry{
		{Event: "meal_finished", DueAtMs: promised.UnixMilli(), AtMs: promised.UnixMilli()},
		{Event: "auto_fed", DueAtMs: second, AtMs: promised.UnixMilli()},
		{Event: "meal_finished", DueAtMs: second, AtMs: second},
	} {
		got := lines[i+2]
		if got.Event != want.Event || got.DueAtMs != want.DueAtMs || got.AtMs != want.AtMs {
			t.Errorf("line %d is %+v, want %+v", i+2, got, want)
		}
	}
	w.fire(first.TaskID) // a late hint
	if again := w.see(id); again.MealsEaten != 2 || len(w.journal(id)) != 5 {
		t.Errorf("after a late hint: %+v", again)
	}
}

// A read that would have to wait for a worker for too long says so.
func TestGetWhileATaskIsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal
	w.due(w.now(), meal.TaskID)
	tx, err := w.store.DB().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "SELECT id FROM duetime_tasks WHERE id = ? FOR UPDATE", meal.TaskID[:])
	pipelinetest.Must(t, err)
	w.refused(w.do("GET", "/v1/pets/"+id, ""), http.StatusServiceUnavailable, "busy", "")
	pipelinetest.Must(t, tx.Rollback())
	if p := w.see(id); p.MealsEaten != 1 {
		t.Errorf("afterwards: %+v", p)
	}
}

// A read whose COMMIT got no answer shows nothing: what it settled may be undone.
func TestGetWithoutAnAnswerToItsCommit(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t)
	loser := pipelinetest.LoseCommits(t, server.Addr())
	w := onSchema(t, start, strings.Replace(server.NewSchema(t), server.Addr(), loser.Addr(), 1))
	id := w.create("ann").ID
	w.due(w.now(), w.act(id, "feed").Meal.TaskID)
	loser.Lose(true)
	w.refused(w.do("GET", "/v1/pets/"+id, ""), http.StatusServiceUnavailable, "unavailable", "")
	loser.Lose(false)
	if p := w.see(id); p.MealsEaten != 1 {
		t.Errorf("afterwards: %+v", p)
	}
}
