package pet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/pkg/task"
)

type moment struct {
	NowMs int64  `json:"now_ms"`
	Line  string `json:"line"`
	Ended []struct {
		PetID   string `json:"pet_id"`
		TaskID  string `json:"task_id"`
		Version int64  `json:"version"`
		Event   string `json:"event"`
		AtMs    int64  `json:"at_ms"`
		LagMs   int64  `json:"lag_ms"`
		Times   int    `json:"times"`
	} `json:"ended"`
	Workers []pet.Worker `json:"workers"`
	Kill    bool         `json:"kill"`
	Flush   bool         `json:"flush"`
}

type verdict struct {
	Meals   int64 `json:"meals"`
	Lost    int64 `json:"lost"`
	Doubled int64 `json:"doubled"`
	Early   int64 `json:"early"`
	AtMs    int64 `json:"at_ms"`
}

// taught is a world whose page has lessons.
func taught(t *testing.T, l pet.Lessons) *world {
	t.Helper()
	w := newWorld(t, pet.Rules{Meal: time.Minute, Speedup: time.Minute, Food: 100, SpeedupCards: 10, AutofeedCards: 10})
	api := pet.NewAPI(w.game, w.Client, w, quiet)
	api.Teach(w.DB(), kept, l)
	w.api = api
	return w
}

func (w *world) moment(query string) moment {
	w.t.Helper()
	return want[moment](w, w.do("GET", "/v1/now"+query, ""), http.StatusOK)
}

// wantDot wants the task's dot on the now line.
func wantDot(t *testing.T, line, class string, id task.ID) {
	t.Helper()
	for _, dot := range strings.Split(line, "<g")[1:] {
		if strings.Contains(dot, `data-task="`+id.String()+`"`) {
			if !strings.Contains(dot, `class="`+class+`"`) {
				t.Errorf("the dot of %s is %s, want %s", id, dot, class)
			}
			return
		}
	}
	t.Errorf("%s has no dot, want one that is %s: %s", id, class, line)
}

// A meal is a dot to come, then late while nobody ends it, then one of the past, as high as it was late.
func TestNowLine(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	tom := want[pet.Pet](w, w.do("POST", "/v1/pets", `{"owner":"ann","name":"<tom> & co"}`), http.StatusCreated)
	meal := w.act(tom.ID, "feed").Meal.TaskID
	other := w.act(w.create("bob").ID, "feed").Meal.TaskID
	m := w.moment("?width=390")
	wantDot(t, m.Line, "future", meal)
	wantDot(t, m.Line, "future", other)
	if !strings.Contains(m.Line, `width="390"`) || !strings.Contains(m.Line, "&lt;tom&gt; &amp; co") || strings.Contains(m.Line, "style=") {
		t.Errorf("the line is %s", m.Line)
	}
	if mine := w.moment("?owner=ann").Line; strings.Contains(mine, other.String()) {
		t.Errorf("the line of ann has bob's meal: %s", mine)
	}

	w.due(w.now().Add(-3*time.Second), meal)
	w.store.Exec("UPDATE pet_journal SET at_ms = at_ms - 60000 WHERE task_id = ?", meal.String()) // fed long before
	m = w.moment("")
	wantDot(t, m.Line, "late", meal)
	if len(m.Ended) != 0 || !strings.Contains(m.Line, `class="wait"`) {
		t.Errorf("a meal that waits: %+v", m)
	}
	w.fire(meal)
	m = w.moment("")
	wantDot(t, m.Line, "late", meal)
	if len(m.Ended) != 1 || m.Ended[0].PetID != tom.ID || m.Ended[0].Event != "meal_finished" || m.Ended[0].LagMs < 3000 || m.Ended[0].Times != 1 {
		t.Errorf("a late end: %+v", m.Ended)
	}

	next := w.act(tom.ID, "feed").Meal.TaskID
	w.act(tom.ID, "cancel")
	if m = w.moment(""); len(m.Ended) != 1 || m.Ended[0].TaskID != next.String() || m.Ended[0].Event != "meal_cancelled" || strings.Contains(m.Line, next.String()) {
		t.Errorf("a cancelled meal: %+v", m)
	}
	w.refused(w.do("GET", "/v1/now?width=1", ""), http.StatusBadRequest, "invalid", "width")
	w.refused(w.do("GET", "/v1/now?owner="+strings.Repeat("x", 65), ""), http.StatusBadRequest, "invalid", "owner")
}

// Ends of one moment have dots beside each other, as high as they were late, with the names of their pets.
func TestDotsOfOneMoment(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	meals := []task.ID{w.act(w.create("ann").ID, "feed").Meal.TaskID, w.act(w.create("bob").ID, "feed").Meal.TaskID}
	w.due(w.now(), meals...)
	w.fire(meals...)
	at := w.now().UnixMilli()
	w.store.Exec("UPDATE pet_journal SET due_at_ms = ?, at_ms = ? WHERE event = 'meal_finished' AND task_id IN (?, ?)", at, at, meals[0].String(), meals[1].String())
	line := w.moment("").Line
	dots := regexp.MustCompile(`<g class="\w+" transform="translate\((\S+) (\S+)\)"[^<]*<circle[^<]*<title>[^<]*</title></circle><text text-anchor="end" (x="[^"]*" y="[^"]*")>`).FindAllStringSubmatch(line, -1)
	if len(dots) != 2 || dots[0][1] == dots[1][1] || dots[0][2] != dots[1][2] {
		t.Fatalf("the dots are %v, want two with names, beside each other: %s", dots, line)
	}
	if first, second := dots[0][3], dots[1][3]; first != `x="-1" y="-9"` || second != `x="-9" y="4"` { // left of the first is the other dot, right of it now
		t.Errorf("the names stand at %s and %s", first, second)
	}
}

// A meal that ends between two readings of the page, of pets and of ends, has one dot: that of its end.
func TestDotOfAMealThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	meal := w.act(w.create("ann").ID, "feed").Meal.TaskID
	w.plant("meal_finished", meal, w.now(), w.now())
	line := w.moment("").Line
	wantDot(t, line, "past", meal)
	if n := strings.Count(line, `data-task="`+meal.String()); n != 1 {
		t.Errorf("%d dots: %s", n, line)
	}
}

// A meal that was moved into the past is late only from its move on.
func TestLagOfAMovedMeal(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal.TaskID
	w.due(w.now().Add(30*time.Second), meal)
	w.act(id, "speedup") // due 30 s ago
	w.fire(meal)
	m := w.moment("")
	if len(m.Ended) != 1 || m.Ended[0].LagMs > 29_000 {
		t.Errorf("ended %+v, want less than since its due time", m.Ended)
	}
}

// What comes later than a minute shares the last part of the strip, and stays in it.
func TestNowLineOfLongMeals(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	w.game.SetRules(start)
	far := w.act(w.create("ann").ID, "feed").Meal.TaskID
	m := w.moment("?width=1000")
	wantDot(t, m.Line, "future", far)
	var x float64
	_, at, _ := strings.Cut(m.Line, `<g class="future" transform="translate(`)
	if _, err := fmt.Sscanf(at, "%f", &x); err != nil || x < 900 || x > 990 {
		t.Errorf("a meal of %v stands at %v px of 1000", start.Meal, x)
	}
}

// The judge counts what is in the rows.
func TestJudge(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	judged := func() verdict { t.Helper(); return want[verdict](w, w.do("GET", "/v1/judge", ""), http.StatusOK) }
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal.TaskID
	w.due(w.now(), meal)
	w.fire(meal)
	got := judged()
	if got.AtMs == 0 || got.Meals != 1 || got.Lost+got.Doubled+got.Early != 0 {
		t.Errorf("judged %+v, want one meal and no fault", got)
	}
	due := w.now()
	w.plant("meal_finished", meal, due, due)
	w.plant("meal_finished", task.NewID(), due, due.Add(-time.Millisecond))
	w.plant("fed", task.NewID(), due, due)
	before := got.AtMs
	for got = judged(); got.AtMs == before; got = judged() { // the last verdict stands for a while
		time.Sleep(10 * time.Millisecond)
	}
	if got.Meals != 3 || got.Lost != 1 || got.Doubled != 1 || got.Early != 1 {
		t.Errorf("judged %+v, want one fault of each kind", got)
	}
}

// A page that is left during an audit takes the verdict from nobody.
func TestJudgeOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	w.serve(httptest.NewRequestWithContext(gone, http.MethodGet, "/v1/judge", http.NoBody))
	want[verdict](w, w.do("GET", "/v1/judge", ""), http.StatusOK)
}

// Lessons are there only where they are offered, and not for pages of other sites.
func TestLessons(t *testing.T) {
	t.Parallel()
	w := taught(t, pet.Lessons{})
	for _, path := range []string{"/v1/lessons/kill", "/v1/lessons/flush"} {
		w.refused(w.do("POST", path, ""), http.StatusNotFound, "not_found", "")
	}
	if m := w.moment(""); m.Kill || m.Flush || len(m.Workers) != 0 {
		t.Errorf("offered: %+v", m)
	}

	alive := true
	w = taught(t, pet.Lessons{
		Workers: func() []pet.Worker { return []pet.Worker{{Name: "worker-1", Alive: alive}} },
		Kill: func(context.Context) (string, error) {
			if !alive {
				return "", nil
			}
			alive = false
			return "worker-1", nil
		},
		Flush: func(context.Context) (int64, error) { return 7, nil },
	})
	if m := w.moment(""); !m.Kill || !m.Flush || len(m.Workers) != 1 || !m.Workers[0].Alive {
		t.Errorf("offered: %+v", m)
	}
	cross := httptest.NewRequest(http.MethodPost, "/v1/lessons/kill", nil).WithContext(t.Context())
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, cross)
	if rec.Code != http.StatusForbidden || !alive {
		t.Errorf("another site's page: status %d, alive %v", rec.Code, alive)
	}
	type killed struct {
		Killed  string       `json:"killed"`
		Workers []pet.Worker `json:"workers"`
	}
	if got := want[killed](w, w.do("POST", "/v1/lessons/kill", ""), http.StatusOK); got.Killed != "worker-1" || got.Workers[0].Alive {
		t.Errorf("killed %+v", got)
	}
	w.refused(w.do("POST", "/v1/lessons/kill", ""), http.StatusConflict, "no_worker", "")
	if got := want[map[string]int](w, w.do("POST", "/v1/lessons/flush", ""), http.StatusOK); got["keys"] != 7 {
		t.Errorf("flushed %v", got)
	}
}
