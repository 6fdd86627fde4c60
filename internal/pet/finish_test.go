package pet_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// One transaction ends meals of all kinds.
func TestFinishManyMeals(t *testing.T) {
	t.Parallel()
	rules := start
	rules.Food = 2
	w := newWorld(t, rules)
	const n = 30
	ids, meals := make([]string, n), make([]task.ID, n)
	promised := w.now().Add(-time.Minute)
	for i := range ids {
		ids[i] = w.create("ann").ID
		meals[i] = w.act(ids[i], "feed").Meal.TaskID
		if i%3 > 0 {
			w.act(ids[i], "autofeed")
		}
		if i%3 == 2 { // a card is armed, but the pet has no food
			w.store.Exec("UPDATE pets SET food = 0 WHERE id = ?", ids[i])
		}
	}
	w.due(promised, meals...)
	for _, o := range w.fire(meals...) {
		if o.Result != "done" || o.Err != nil {
			t.Errorf("%+v", o)
		}
	}
	next := map[task.ID]bool{}
	for i, id := range ids {
		p := w.see(id)
		lines := w.journal(id)
		last := lines[len(lines)-1]
		if p.MealsEaten != 1 || p.Experience != 10 {
			t.Errorf("%d: %+v", i, p)
		}
		if i%3 != 1 {
			if p.Meal != nil || last.Event != "meal_finished" || last.TaskID != meals[i].String() || p.AutofeedArmed != i%3/2 {
				t.Errorf("%d: %+v, last line %+v", i, p, last)
			}
			continue
		}
		if p.Meal == nil || p.Food != 0 || p.AutofeedArmed != 0 || p.Meal.Source != "auto" ||
			p.Meal.DueAtMs != promised.Add(rules.Meal).UnixMilli() || last.Event != "auto_fed" || last.TaskID != p.Meal.TaskID.String() {
			t.Fatalf("%d: %+v, meal %+v, last line %+v", i, p, p.Meal, last)
		}
		if row := w.store.Row(p.Meal.TaskID); row.Subject != id || row.Owner != "ann" || next[row.ID] {
			t.Errorf("%d: its task is %+v", i, row)
		}
		next[p.Meal.TaskID] = true
	}
	w.fire(meals...) // repeated hints change nothing
	if p := w.see(ids[0]); p.MealsEaten != 1 {
		t.Errorf("eaten twice: %+v", p)
	}
}

func (w *world) meal(number int64, subject string) task.ID {
	w.t.Helper()
	made, err := w.Schedule(w.t.Context(), pet.MealFinished.New("ann", pet.MealPayload{PetID: number}, task.In(0), task.Subject(subject)))
	pipelinetest.Must(w.t, err)
	return made.ID
}

// Two tasks of one pet, which somebody made by hand with two subjects: each counts, and the task that is not the pet's
// current meal doesn't end that meal.
func TestFinishTwoOfOnePet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	own := w.act(id, "feed").Meal.TaskID
	w.act(id, "autofeed")
	first, second := w.meal(1, "a"), w.meal(1, "b")
	for _, o := range w.fire(first, second) {
		if o.Result != "done" {
			t.Errorf("%+v", o)
		}
	}
	if p := w.see(id); p.MealsEaten != 2 || p.Meal == nil || p.Meal.TaskID != own || p.Meal.Source != "hand" || p.AutofeedArmed != 1 {
		t.Errorf("%+v, meal %+v", p, p.Meal)
	}
}

// A meal whose pet was deleted dies, and its neighbours are not charged.
func TestFinishWithoutPet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	var all []task.ID
	for range 6 {
		all = append(all, w.act(w.create("ann").ID, "feed").Meal.TaskID)
	}
	w.due(w.now(), all...)
	gone := w.meal(4711, "4711")
	w.fire(append(all, gone)...)
	if row := w.store.Row(gone); row.State != task.Dead || row.LastError == "" {
		t.Errorf("without a pet: %+v", row)
	}
	for _, id := range all {
		if row := w.store.Row(id); row.State != task.Done || row.Attempt != 0 {
			t.Errorf("a neighbour: %+v", row)
		}
	}
}
