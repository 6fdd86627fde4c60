package pet_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// mealtime returns the pending task of the pet's next mealtime.
func (w *world) mealtime(owner string) task.Task {
	w.t.Helper()
	rows, err := w.store.ListOwner(w.t.Context(), nil, owner, pet.Mealtime.Name())
	pipelinetest.Must(w.t, err)
	if len(rows) != 1 {
		w.t.Fatalf("%d mealtimes are pending, want one", len(rows))
	}
	return rows[0]
}

// fireMealtime runs the next mealtime now.
func (w *world) fireMealtime(owner string) {
	w.t.Helper()
	id := w.mealtime(owner).ID
	w.due(w.now(), id)
	for _, o := range w.fire(id) {
		if o.Result != "done" {
			w.t.Errorf("%+v", o)
		}
	}
}

// A pet is fed at its mealtimes until its owner ends them: once more when it has eaten, but not beside a meal, nor without food.
func TestMealtimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	set := want[pet.Mealtimes](w, w.do("POST", "/v1/pets/"+id+"/mealtimes", `{"cron":"0 8 * * *","zone":"Asia/Shanghai"}`), http.StatusOK)
	if len(set.NextMs) != 5 || set.NextMs[4]-set.NextMs[0] != (4*24*time.Hour).Milliseconds() || set.ID != id {
		t.Errorf("%+v", set)
	}
	if next := w.mealtime("ann"); next.DueAt.UnixMilli() != set.NextMs[0] || next.Subject != id {
		t.Errorf("the first mealtime is %+v", next)
	}
	w.fireMealtime("ann")
	p := w.see(id)
	if p.Meal == nil || p.Meal.Source != "time" || p.Food != start.Food-1 {
		t.Fatalf("after a mealtime: %+v", p)
	}
	w.fireMealtime("ann") // it is eating
	if other := w.see(id); other.Food != p.Food || other.Meal.TaskID != p.Meal.TaskID {
		t.Errorf("fed beside a meal: %+v", other)
	}
	w.due(w.now(), p.Meal.TaskID)
	w.fire(p.Meal.TaskID)
	w.store.Exec("UPDATE pets SET food = 0 WHERE id = ?", id)
	w.fireMealtime("ann") // it has no food
	if p = w.see(id); p.Meal != nil || p.MealsEaten != 1 {
		t.Errorf("fed without food: %+v", p)
	}
	if lines := w.journal(id); len(lines) != 2 || lines[0].Event != "mealtime_fed" || lines[1].Event != "meal_finished" {
		t.Errorf("the journal has %+v", lines)
	}
	want[pet.Pet](w, w.do("DELETE", "/v1/pets/"+id+"/mealtimes", ""), http.StatusOK)
	w.refused(w.do("DELETE", "/v1/pets/"+id+"/mealtimes", ""), http.StatusConflict, "no_mealtimes", "")
	rows, err := w.store.ListOwner(t.Context(), nil, "ann", "")
	pipelinetest.Must(t, err)
	if len(rows) != 0 {
		t.Errorf("%d tasks are pending after the end", len(rows))
	}
}

func TestMealtimesRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	for field, body := range map[string]string{
		"zone": `{"cron":"0 8 * * *","zone":"Mars/Olympus"}`,
		"hour": `{"cron":"0 24 * * *","zone":"UTC"}`,
		"cron": `{"zone":"UTC"}`,
	} {
		w.refused(w.do("POST", "/v1/pets/"+id+"/mealtimes", body), http.StatusBadRequest, "invalid", field)
	}
	w.refused(w.do("POST", "/v1/pets/12345/mealtimes", `{"cron":"0 8 * * *","zone":"UTC"}`), http.StatusNotFound, "not_found", "")
}
