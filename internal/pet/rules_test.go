package pet_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestPetBeginsWithTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	made := w.create("ann")
	want := pet.Pet{ID: made.ID, Owner: "ann", Name: "tom", Food: 100, SpeedupCards: 10, AutofeedCards: 10}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, w.see(made.ID)); diff != "" {
		t.Error(diff)
	}
	if twin := w.create("ann"); twin.ID == made.ID {
		t.Error("two pets of one name are one pet")
	}
}

func TestMealByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	before := w.now()
	fed := w.act(id, "feed")
	if fed.Food != 99 || fed.Meal == nil || fed.Meal.Source != "hand" || fed.Meal.Version != 1 {
		t.Fatalf("fed: %+v, meal %+v", fed, fed.Meal)
	}
	due := time.UnixMilli(fed.Meal.DueAtMs)
	if due.Before(before.Add(start.Meal)) || due.After(w.now().Add(start.Meal)) {
		t.Errorf("due %v is not a meal after now", due)
	}
	if diff := cmp.Diff(fed, w.see(id)); diff != "" {
		t.Error(diff)
	}
	w.refused(w.try(id, "feed"), http.StatusConflict, "already_eating", "")

	w.due(w.now(), fed.Meal.TaskID)
	due = w.store.Row(fed.Meal.TaskID).DueAt
	w.fire(fed.Meal.TaskID)
	full := w.see(id)
	if full.MealsEaten != 1 || full.Experience != 10 || full.Meal != nil || full.Food != 99 {
		t.Errorf("after the meal: %+v", full)
	}
	w.wantJournal(id,
		step{"fed", fed.Meal.TaskID, 1, fed.Meal.DueAtMs},
		step{"meal_finished", fed.Meal.TaskID, 1, due.UnixMilli()})
	for _, what := range []string{"speedup", "autofeed", "cancel"} {
		w.refused(w.try(id, what), http.StatusConflict, "not_eating", "")
	}
}

// step is a journal line without its clock.
type step struct {
	event   string
	task    task.ID
	version int64
	dueMs   int64
}

func (w *world) wantJournal(id string, steps ...step) {
	w.t.Helper()
	owner := w.see(id).Owner
	number, err := strconv.ParseInt(id, 10, 64)
	pipelinetest.Must(w.t, err)
	want := make([]entry, len(steps))
	for i, s := range steps {
		want[i] = entry{PetID: number, Owner: owner, Event: s.event, TaskID: s.task.String(), Version: s.version, DueAtMs: s.dueMs}
	}
	got := w.journal(id)
	for i := range got {
		if at := time.UnixMilli(got[i].AtMs); at.After(w.now()) || at.Before(w.now().Add(-time.Minute)) {
			w.t.Errorf("line %d is stamped %v, the database says %v", i, at, w.now())
		}
		got[i].AtMs = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestRefusalsInOrder(t *testing.T) {
	t.Parallel()
	poor := pet.Rules{Meal: time.Hour, Speedup: time.Minute, Food: 1}
	w := newWorld(t, poor)
	id := w.create("ann").ID
	for _, what := range []string{"speedup", "autofeed", "cancel"} { // the answer is not no_card
		w.refused(w.try(id, what), http.StatusConflict, "not_eating", "")
	}
	meal := w.act(id, "feed").Meal
	w.refused(w.try(id, "feed"), http.StatusConflict, "already_eating", "") // the answer is not no_food
	w.refused(w.try(id, "speedup"), http.StatusConflict, "no_card", "")
	w.refused(w.try(id, "autofeed"), http.StatusConflict, "no_card", "")
	w.due(w.now(), meal.TaskID)
	w.fire(meal.TaskID)
	w.refused(w.try(id, "feed"), http.StatusConflict, "no_food", "")
	if got := len(w.journal(id)); got != 2 {
		t.Errorf("%d lines in the journal, want 2: refusals leave none", got)
	}
}

func TestSpeedup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal
	first := w.act(id, "speedup")
	if got, want := first.Meal.DueAtMs, meal.DueAtMs-start.Speedup.Milliseconds(); got != want || first.SpeedupCards != 9 || first.Meal.Version != 2 {
		t.Errorf("due %d, want %d; %+v %+v", got, want, first, first.Meal)
	}
	before := w.now()
	second := w.act(id, "speedup") // less than two hours are left, so it is due now
	if due := time.UnixMilli(second.Meal.DueAtMs); due.Before(before) || due.After(w.now()) || second.Meal.Version != 3 {
		t.Errorf("due %v, want between %v and %v; version %d", due, before, w.now(), second.Meal.Version)
	}
	third := w.act(id, "speedup") // it is overdue: its due time stays, but the card is spent
	if third.Meal.DueAtMs != second.Meal.DueAtMs || third.Meal.Version != 4 || third.SpeedupCards != 7 {
		t.Errorf("third: %+v %+v", third, third.Meal)
	}
	w.fire(meal.TaskID)
	w.wantJournal(id,
		step{"fed", meal.TaskID, 1, meal.DueAtMs}, step{"sped_up", meal.TaskID, 2, first.Meal.DueAtMs},
		step{"sped_up", meal.TaskID, 3, second.Meal.DueAtMs}, step{"sped_up", meal.TaskID, 4, third.Meal.DueAtMs},
		step{"meal_finished", meal.TaskID, 4, third.Meal.DueAtMs})
}

func TestAutofeedChain(t *testing.T) {
	t.Parallel()
	rules := pet.Rules{Meal: time.Hour, Speedup: 10 * time.Minute, Food: 3, SpeedupCards: 1, AutofeedCards: 4}
	w := newWorld(t, rules)
	id := w.create("ann").ID
	hand := w.act(id, "feed").Meal
	for armed := 1; armed <= 4; armed++ {
		if p := w.act(id, "autofeed"); p.AutofeedArmed != armed || p.AutofeedCards != 4-armed || p.Meal.Version != 1 {
			t.Fatalf("armed: %+v", p)
		}
	}
	// Ten minutes late: the next meal counts from the due time, even after a failed attempt.
	promised := w.now().Add(-10 * time.Minute)
	w.due(promised, hand.TaskID)
	w.store.Exec("UPDATE duetime_tasks SET run_at = ?, attempt = 1, version = 2 WHERE id = ?", w.now().UnixMilli(), hand.TaskID[:])
	w.fire(hand.TaskID)
	p := w.see(id)
	if p.Meal == nil || p.Meal.Source != "auto" || p.Meal.Version != 1 || p.AutofeedArmed != 3 || p.Food != 1 || p.MealsEaten != 1 || p.Experience != 10 {
		t.Fatalf("fed again: %+v, meal %+v", p, p.Meal)
	}
	auto := p.Meal
	if want := promised.Add(rules.Meal).UnixMilli(); auto.DueAtMs != want {
		t.Errorf("due %d, want %d: a meal after the promise", auto.DueAtMs, want)
	}
	// Two hours late: at once.
	before := w.now()
	w.due(before.Add(-2*time.Hour), auto.TaskID)
	w.fire(auto.TaskID)
	lines := w.journal(id)
	late := lines[len(lines)-1]
	if due := time.UnixMilli(late.DueAtMs); due.Before(before) || due.After(w.now()) {
		t.Errorf("due %v, want now: %+v", due, late)
	}
	lateID, err := task.ParseID(late.TaskID)
	pipelinetest.Must(t, err)
	// No food: the card stays armed, and the pet stops. It is shown so, though no worker has run the meal that is due.
	p = w.see(id)
	if p.Meal != nil || p.AutofeedArmed != 2 || p.Food != 0 || p.MealsEaten != 3 || p.Experience != 30 {
		t.Errorf("without food: %+v", p)
	}
	w.wantJournal(id,
		step{"fed", hand.TaskID, 1, hand.DueAtMs},
		step{"autofeed_armed", hand.TaskID, 1, hand.DueAtMs}, step{"autofeed_armed", hand.TaskID, 1, hand.DueAtMs},
		step{"autofeed_armed", hand.TaskID, 1, hand.DueAtMs}, step{"autofeed_armed", hand.TaskID, 1, hand.DueAtMs},
		step{"meal_finished", hand.TaskID, 2, promised.UnixMilli()}, step{"auto_fed", auto.TaskID, 1, auto.DueAtMs},
		step{"meal_finished", auto.TaskID, 1, before.Add(-2 * time.Hour).UnixMilli()}, step{"auto_fed", lateID, 1, late.DueAtMs},
		step{"meal_finished", lateID, 1, late.DueAtMs})
}

func TestCancelRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal
	w.act(id, "autofeed")
	w.act(id, "autofeed")
	w.act(id, "speedup")
	p := w.act(id, "cancel")
	want := pet.Pet{ID: id, Owner: "ann", Name: "tom", Food: 100, SpeedupCards: 9, AutofeedCards: 10}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, w.see(id)); diff != "" {
		t.Error(diff)
	}
	w.refused(w.try(id, "cancel"), http.StatusConflict, "not_eating", "")
	if row := w.store.Row(meal.TaskID); row.State != task.Cancelled {
		t.Errorf("task is %v", row.State)
	}
	lines := w.journal(id)
	last := lines[len(lines)-1]
	if last.Event != "meal_cancelled" || last.Version != 3 || last.DueAtMs != meal.DueAtMs-start.Speedup.Milliseconds() {
		t.Errorf("last line: %+v", last)
	}
	w.act(id, "feed")
}

func TestFeedAfterTheOperator(t *testing.T) {
	t.Parallel()
	ends := map[string]func(w *world, id task.ID){
		"cancelled": func(w *world, id task.ID) {
			_, err := w.Cancel(w.t.Context(), id)
			pipelinetest.Must(w.t, err)
		},
		"dead": func(w *world, id task.ID) {
			w.store.Exec("UPDATE duetime_tasks SET state = 3, version = 2 WHERE id = ?", id[:])
		},
		"purged": func(w *world, id task.ID) { w.store.Exec("DELETE FROM duetime_tasks WHERE id = ?", id[:]) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, start)
			id := w.create("ann").ID
			first := w.act(id, "feed").Meal
			w.act(id, "autofeed")
			end(w, first.TaskID)
			if p := w.see(id); p.Meal != nil || p.Food != 99 || p.AutofeedArmed != 1 {
				t.Errorf("nothing is refunded: %+v", p)
			}
			for _, what := range []string{"speedup", "autofeed", "cancel"} {
				w.refused(w.try(id, what), http.StatusConflict, "not_eating", "")
			}
			if p := w.act(id, "feed"); p.Food != 98 || p.Meal.TaskID == first.TaskID || p.AutofeedArmed != 1 {
				t.Errorf("fed anew: %+v", p)
			}
		})
	}
}

func TestOwnersTasks(t *testing.T) {
	t.Parallel()
	type list struct {
		Source string `json:"source"`
		Tasks  []struct {
			TaskID  task.ID `json:"task_id"`
			Kind    string  `json:"kind"`
			PetID   string  `json:"pet_id"`
			DueAtMs int64   `json:"due_at_ms"`
		} `json:"tasks"`
		Next string `json:"next"`
	}
	w := newWorld(t, start)
	w.act(w.create("bob").ID, "feed")
	ids := []string{w.create("ann").ID, w.create("ann").ID, w.create("ann").ID}
	for _, id := range ids {
		w.act(id, "feed")
	}
	sooner := w.act(ids[2], "speedup").Meal
	for _, query := range []string{"", "?source=db"} { // an embedded pipeline has no index
		got := want[list](w, w.do("GET", "/v1/owners/ann/tasks"+query, ""), http.StatusOK)
		if got.Source != "db" || len(got.Tasks) != 3 {
			t.Fatalf("%q: %+v", query, got)
		}
		if first := got.Tasks[0]; first.TaskID != sooner.TaskID || first.PetID != ids[2] || first.DueAtMs != sooner.DueAtMs || first.Kind != "pet.meal_finished" {
			t.Errorf("%q: first is %+v, want %+v", query, first, sooner)
		}
		for i := 1; i < len(got.Tasks); i++ {
			if got.Tasks[i].DueAtMs < got.Tasks[i-1].DueAtMs {
				t.Errorf("%q: not by due_at_ms: %+v", query, got.Tasks)
			}
		}
		pageOf := "/v1/owners/ann/tasks?limit=2" + strings.Replace(query, "?", "&", 1)
		first := want[list](w, w.do("GET", pageOf, ""), http.StatusOK)
		rest := want[list](w, w.do("GET", pageOf+"&cursor="+first.Next, ""), http.StatusOK)
		if paged := slices.Concat(first.Tasks, rest.Tasks); first.Next == "" || rest.Next != "" || !slices.Equal(paged, got.Tasks) {
			t.Errorf("%q: by pages %+v, want %+v", query, paged, got.Tasks)
		}
		if none := w.do("GET", "/v1/owners/nobody/tasks"+query, ""); none.body != `{"source":"db","tasks":[]}`+"\n" {
			t.Errorf("nobody's tasks: %s", none.body)
		}
	}
	for field, value := range map[string]string{"limit": "0", "cursor": "x"} {
		w.refused(w.do("GET", "/v1/owners/ann/tasks?"+field+"="+value, ""), http.StatusBadRequest, "invalid", field)
	}
	w.refused(w.do("GET", "/v1/owners/ann/tasks?source=kafka", ""), http.StatusBadRequest, "invalid", "source")
	w.refused(w.do("GET", "/v1/owners/a%20b/tasks", ""), http.StatusBadRequest, "invalid", "owner")
}

type moved struct {
	Moved *int `json:"moved"`
}

func (w *world) speedupOwner(owner string) int {
	w.t.Helper()
	return *want[moved](w, w.do("POST", "/v1/owners/"+owner+"/speedup", ""), http.StatusOK).Moved
}

func TestOwnersSpeedup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	if n := w.speedupOwner("nobody"); n != 0 {
		t.Errorf("nobody: moved %d", n)
	}
	others := w.create("bob").ID
	w.act(others, "feed")
	w.create("ann") // not eating
	broke := w.create("ann").ID
	w.act(broke, "feed")
	w.store.Exec("UPDATE pets SET speedup_cards = 0 WHERE id = ?", broke)
	stopped := w.create("ann").ID
	_, err := w.Cancel(t.Context(), w.act(stopped, "feed").Meal.TaskID)
	pipelinetest.Must(t, err)
	if n := w.speedupOwner("ann"); n != 0 {
		t.Errorf("none can be moved, yet moved %d", n)
	}
	eats := map[string]*pet.Meal{}
	for range 3 {
		id := w.create("ann").ID
		eats[id] = w.act(id, "feed").Meal
	}
	if n := w.speedupOwner("ann"); n != 3 {
		t.Errorf("moved %d, want 3", n)
	}
	for id, meal := range eats {
		p := w.see(id)
		if p.SpeedupCards != 9 || p.Meal.DueAtMs != meal.DueAtMs-start.Speedup.Milliseconds() || p.Meal.Version != 2 {
			t.Errorf("%+v, meal %+v", p, p.Meal)
		}
		w.wantJournal(id, step{"fed", meal.TaskID, 1, meal.DueAtMs}, step{"sped_up", meal.TaskID, 2, p.Meal.DueAtMs})
	}
	if p := w.see(others); p.SpeedupCards != 10 || p.Meal.Version != 1 {
		t.Errorf("another owner's pet was moved: %+v", p)
	}
	if p := w.see(broke); p.SpeedupCards != 0 || p.Meal.Version != 1 {
		t.Errorf("a pet without a card was moved: %+v", p)
	}
}

// More pets than one call of the library takes. The test is not parallel: on a slow machine too, a request has only 5 s.
func TestOwnersSpeedupInParts(t *testing.T) {
	const n = task.MaxPerCall + 10
	w := newWorld(t, start)
	specs := make([]task.Spec, n)
	values, args := make([]string, n), make([]any, n)
	for i := range specs {
		specs[i] = pet.MealFinished.New("ann", pet.MealPayload{PetID: int64(i + 1)}, task.In(time.Hour), task.Subject(strconv.Itoa(i+1)))
		values[i], args[i] = "('ann', 'x', 1, 2, 1, ?, 'hand')", specs[i].ID().String()
	}
	w.store.Exec("INSERT INTO pets (owner, name, food, speedup_cards, autofeed_cards, meal_task_id, meal_source) VALUES "+strings.Join(values, ","), args...)
	for part := range slices.Chunk(specs, task.MaxPerCall) {
		pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(t.Context(), part)
			return err
		}))
	}
	if got := w.speedupOwner("ann"); got != n {
		t.Errorf("moved %d, want %d", got, n)
	}
	for what, query := range map[string]string{
		"cards": "SELECT COUNT(*) FROM pets WHERE speedup_cards = 1", "lines": "SELECT COUNT(DISTINCT task_id) FROM pet_journal WHERE event = 'sped_up'",
		"tasks": "SELECT COUNT(*) FROM duetime_tasks WHERE version = 2",
	} {
		var got int
		pipelinetest.Must(t, w.store.DB().GetContext(t.Context(), &got, query))
		if got != n {
			t.Errorf("%s: %d, want %d", what, got, n)
		}
	}
}
