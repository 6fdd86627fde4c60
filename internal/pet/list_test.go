package pet_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/pet"
)

type petList struct {
	NowMs     int64     `json:"now_ms"`
	MealMs    int64     `json:"meal_ms"`
	SpeedupMs int64     `json:"speedup_ms"`
	Pets      []pet.Pet `json:"pets"`
}

type journalLines struct {
	Lines []pet.Line `json:"lines"`
}

// The lists show what the single calls show, the newest first, and nothing of other owners.
func TestLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	hungry, eating, other := w.create("ann"), w.create("ann"), w.create("bob")
	w.act(eating.ID, "feed")
	sped := w.act(eating.ID, "speedup")
	w.act(other.ID, "feed")

	all := want[petList](w, w.do("GET", "/v1/pets", ""), http.StatusOK)
	if all.MealMs != start.Meal.Milliseconds() || all.SpeedupMs != start.Speedup.Milliseconds() {
		t.Errorf("the rules are %+v", all)
	}
	if off := w.now().UnixMilli() - all.NowMs; off < 0 || off > 60_000 {
		t.Errorf("now is %d ms behind", off)
	}
	wantPets(t, all, other.ID, eating.ID, hungry.ID)
	of := want[petList](w, w.do("GET", "/v1/pets?owner=ann", ""), http.StatusOK)
	wantPets(t, of, eating.ID, hungry.ID)
	if m := of.Pets[0].Meal; m == nil || *m != *sped.Meal || of.Pets[1].Meal != nil {
		t.Errorf("the meals are %+v and %+v, want %+v and none", m, of.Pets[1].Meal, sped.Meal)
	}
	wantPets(t, want[petList](w, w.do("GET", "/v1/pets?limit=1", ""), http.StatusOK), other.ID)
	wantPets(t, want[petList](w, w.do("GET", "/v1/pets?owner=nobody", ""), http.StatusOK))

	lines := want[journalLines](w, w.do("GET", "/v1/journal?owner=ann", ""), http.StatusOK).Lines
	if len(lines) != 2 || lines[0].Event != "sped_up" || lines[1].Event != "fed" || lines[0].Name != "tom" || lines[0].PetID != eating.ID ||
		lines[0].TaskID != sped.Meal.TaskID.String() || lines[0].Version != sped.Meal.Version || lines[0].DueAtMs != sped.Meal.DueAtMs {
		t.Errorf("the journal of ann is %+v", lines)
	}
	if lines := want[journalLines](w, w.do("GET", "/v1/journal?limit=2", ""), http.StatusOK).Lines; len(lines) != 2 || lines[0].Owner != "bob" {
		t.Errorf("the newest lines are %+v", lines)
	}
}

func wantPets(t *testing.T, l petList, ids ...string) {
	t.Helper()
	var got []string
	for _, p := range l.Pets {
		got = append(got, p.ID)
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Errorf("pets %v, want %v", got, ids)
	}
}

// The page stands beside the API, which answers everything else as it did.
func TestSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	site := pet.Site(w.api, `http://127.0.0.1:8090/"><script>`)
	ask := func(method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		site.ServeHTTP(rec, httptest.NewRequest(method, path, nil).WithContext(t.Context()))
		return rec
	}
	page := ask("GET", "/")
	if body := page.Body.String(); page.Code != http.StatusOK || !strings.Contains(body, `data-console="http://127.0.0.1:8090/&#34;`) {
		t.Errorf("the page: %d %s", page.Code, body)
	}
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the page's policy is %q", policy)
	}
	for path, kind := range map[string]string{"/page/game.js": "javascript", "/page/words.js": "javascript", "/page/lessons.js": "javascript", "/page/game.css": "css", "/page/icon.svg": "svg"} {
		if got := ask("GET", path); got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, got.Code, got.Header())
		}
	}
	for _, c := range []struct{ method, path string }{{"POST", "/"}, {"GET", "/v1//pets"}, {"GET", "/v1"}, {"DELETE", "/page/game.js"}} {
		got := ask(c.method, c.path)
		if got.Code != http.StatusNotFound || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Code, got.Body)
		}
	}
	if got := ask("GET", "/page/nothing"); got.Code != http.StatusNotFound {
		t.Errorf("a file that isn't there: %d", got.Code)
	}
}
