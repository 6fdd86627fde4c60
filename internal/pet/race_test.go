package pet_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// play runs the pipeline's own worker, which ends meals until stop is called.
func (w *world) play(t *testing.T) (stop func()) {
	end := worldtest.Run(t, func(ctx context.Context) error { return w.Work(ctx, w.game.Handlers()) })
	return func() { pipelinetest.Must(t, end()) }
}

// TestRaces has many clients change a few pets while their meals end, and then compares the pets with the journal.
func TestRaces(t *testing.T) {
	t.Parallel()
	rules := pet.Rules{Meal: 120 * time.Millisecond, Speedup: 40 * time.Millisecond, Food: 400, SpeedupCards: 300, AutofeedCards: 200}
	w := newWorld(t, rules)
	stop := w.play(t)
	defer stop()
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = w.create("ann").ID
	}
	seen := &promises{due: map[task.ID]map[int64]int64{}}
	playing, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	leave := func() { cancel(); clients.Wait() }
	defer leave()
	var calm atomic.Bool
	for range 12 {
		clients.Go(func() {
			for playing.Err() == nil {
				w.step(t, ids[rand.IntN(len(ids))], seen)
				if calm.Load() {
					time.Sleep(2 * time.Second)
				}
			}
		})
	}
	time.Sleep(6 * time.Second)
	// On a busy machine a due meal may wait so long that it is cancelled, again and again; calmer clients let it end.
	calm.Store(true)
	pipelinetest.Await(t, "a meal of each pet", func() bool {
		for _, id := range ids {
			if w.see(id).MealsEaten == 0 {
				return false
			}
		}
		return true
	})
	leave()
	pipelinetest.Await(t, "the last meals", func() bool {
		for _, id := range ids {
			if w.see(id).Meal != nil {
				return false
			}
		}
		return true
	})
	stop()
	for _, id := range ids {
		w.account(t, id, seen)
	}
	found, err := pet.Audit(t.Context(), w.DB(), kept, w.tasks)
	if err != nil || found != (pet.Findings{}) {
		t.Errorf("audit: %+v, %v", found, err)
	}
}

// If many clients want the last cards at once, each card goes to one client, and the others are told that there is none.
func TestLastCards(t *testing.T) {
	t.Parallel()
	rules := start
	rules.SpeedupCards, rules.AutofeedCards = 2, 2
	rules.Speedup = time.Hour // the meal goes on after both
	w := newWorld(t, rules)
	id := w.create("ann").ID
	w.act(id, "feed")
	for _, what := range []string{"speedup", "autofeed"} {
		answers := make([]reply, 6)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = insist(func() reply { return w.try(id, what, keyHeader, strconv.Itoa(i)) }) })
		}
		all.Wait()
		got := 0
		for _, a := range answers {
			if a.status == http.StatusOK {
				got++
				continue
			}
			w.refused(a, http.StatusConflict, "no_card", "")
		}
		if got != 2 {
			t.Errorf("%s: %d got a card, want 2", what, got)
		}
	}
	if p := w.see(id); p.SpeedupCards != 0 || p.AutofeedCards != 0 || p.AutofeedArmed != 2 || p.Meal.Version != 3 {
		t.Errorf("%+v, meal %+v", p, p.Meal)
	}
}

// promises are the answers that clients got.
type promises struct {
	mu  sync.Mutex
	due map[task.ID]map[int64]int64 // due_at_ms by version
}

func (s *promises) note(m *pet.Meal) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due[m.TaskID] == nil {
		s.due[m.TaskID] = map[int64]int64{}
	}
	s.due[m.TaskID][m.Version] = m.DueAtMs
}

// insist repeats a request that is answered busy, as clients do: it changed nothing. On a slow machine many requests wait
// for a lock.
func insist(request func() reply) (got reply) {
	for range 20 {
		if got = request(); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, `"busy"`) {
			break
		}
	}
	return got
}

// step makes one random change, and records what was promised.
func (w *world) step(t *testing.T, id string, seen *promises) {
	what := []string{"feed", "feed", "feed", "speedup", "speedup", "autofeed", "autofeed", "cancel", "owner", "get"}[rand.IntN(10)]
	var got reply
	switch what {
	case "owner":
		got = insist(func() reply { return w.do("POST", "/v1/owners/ann/speedup", "") })
	case "get":
		got = insist(func() reply { return w.do("GET", "/v1/pets/"+id, "") })
	default:
		got = insist(func() reply { return w.try(id, what) })
	}
	switch got.status {
	case http.StatusOK:
		var p pet.Pet
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			t.Error(err)
		}
		seen.note(p.Meal)
	case http.StatusConflict:
	default:
		t.Errorf("%s: %+v", what, got)
	}
}

// account replays the pet's journal and compares it with the promises.
func (w *world) account(t *testing.T, id string, seen *promises) {
	t.Helper()
	want := pet.Pet{ID: id, Owner: "ann", Name: "tom", Food: w.rules.Food, SpeedupCards: w.rules.SpeedupCards, AutofeedCards: w.rules.AutofeedCards}
	var eaten entry // the line of the meal's last start or move
	for _, line := range w.journal(id) {
		if line.Event == "fed" || line.Event == "auto_fed" {
			if eaten.TaskID != "" {
				t.Errorf("pet %s: %+v, while %s was going on", id, line, eaten.TaskID)
			}
			want.Food--
			eaten = line
		} else if eaten.TaskID != line.TaskID {
			t.Errorf("pet %s: %+v, while %q was going on", id, line, eaten.TaskID)
		}
		switch line.Event {
		case "auto_fed":
			want.AutofeedArmed--
		case "autofeed_armed":
			want.AutofeedCards--
			want.AutofeedArmed++
		case "sped_up":
			if line.Version <= eaten.Version || line.DueAtMs > eaten.DueAtMs { // a charged attempt raises the version too
				t.Errorf("pet %s: %+v after %+v", id, line, eaten)
			}
			want.SpeedupCards--
			eaten = line
		case "meal_cancelled":
			want.Food++
			want.AutofeedCards += want.AutofeedArmed
			want.AutofeedArmed = 0
			eaten = entry{}
		case "meal_finished":
			if line.DueAtMs != eaten.DueAtMs || line.AtMs < line.DueAtMs || line.Version < eaten.Version {
				t.Errorf("pet %s: %+v after %+v", id, line, eaten)
			}
			want.MealsEaten++
			want.Experience += 10
			eaten = entry{}
		}
		taskID, err := task.ParseID(line.TaskID)
		pipelinetest.Must(t, err)
		if due, told := seen.due[taskID][line.Version]; told && due != line.DueAtMs && line.Event != "meal_cancelled" {
			t.Errorf("pet %s: %+v, and a client was told that it is due at %d", id, line, due)
		}
	}
	if got := w.see(id); got != want {
		t.Errorf("pet %s is %+v, its journal makes it %+v", id, got, want)
	}
	if want.MealsEaten == 0 {
		t.Errorf("pet %s never ate", id)
	}
}
