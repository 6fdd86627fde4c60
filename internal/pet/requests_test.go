package pet_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
)

const keyHeader = "Idempotency-Key"

func TestKeyForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	for _, key := range []string{"", strings.Repeat("k", 129), "a\tb", "a\x7f", "ké", "\x00"} {
		w.refused(w.try(id, "feed", keyHeader, key), http.StatusBadRequest, "invalid", keyHeader)
	}
	w.refused(w.try(id, "feed", keyHeader, "a", keyHeader, "b"), http.StatusBadRequest, "invalid", keyHeader)
	if p := w.see(id); p.Food != 100 {
		t.Errorf("fed with a bad key: %+v", p)
	}
	for _, key := range []string{"k", strings.Repeat("k", 128), " !~", "\"quoted\"; DROP"} {
		want[pet.Pet](w, w.try(w.create("ann").ID, "feed", keyHeader, key), http.StatusOK)
	}
}

func TestKeyReplays(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]string{"plain": "", "rows found": "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keyReplays(t, onSchema(t, start, worldtest.Schema(t)+parameters))
		})
	}
}

func keyReplays(t *testing.T, w *world) {
	made := w.do("POST", "/v1/pets", `{"owner":"ann","name":"tom"}`, keyHeader, "k")
	id := want[pet.Pet](w, made, http.StatusCreated).ID
	if again := w.do("POST", "/v1/pets", `{"owner":"ann","name":"tom"}`, keyHeader, "k"); again != made {
		t.Errorf("replayed %+v, want %+v", again, made)
	}
	w.refused(w.do("POST", "/v1/pets", `{"owner":"ann","name":"tim"}`, keyHeader, "k"), http.StatusUnprocessableEntity, "key_reused", keyHeader)

	// A key is scoped to method and path: these requests don't share the key.
	refused := w.try(id, "speedup", keyHeader, "k")
	w.refused(refused, http.StatusConflict, "not_eating", "")
	fed := w.try(id, "feed", keyHeader, "k")
	want[pet.Pet](w, fed, http.StatusOK)
	if other := w.try(w.create("ann").ID, "feed", keyHeader, "k"); other == fed || other.status != http.StatusOK {
		t.Errorf("another pet's: %+v", other)
	}
	if again := w.try(id, "speedup", keyHeader, "k"); again != refused {
		t.Errorf("a 409 was answered anew: %+v", again)
	}
	sped := w.try(id, "speedup", keyHeader, "k2")
	armed := w.try(id, "autofeed", keyHeader, "k")
	owner := w.do("POST", "/v1/owners/ann/speedup", "", keyHeader, "k")
	cancelled := w.try(id, "cancel", keyHeader, "k")
	for what, first := range map[string]reply{"feed": fed, "autofeed": armed, "cancel": cancelled} {
		if again := w.try(id, what, keyHeader, "k"); again != first || first.status != http.StatusOK {
			t.Errorf("%s: replayed %+v, want %+v", what, again, first)
		}
	}
	if again := w.try(id, "speedup", keyHeader, "k2"); again != sped || sped.status != http.StatusOK {
		t.Errorf("speedup: replayed %+v, want %+v", again, sped)
	}
	if again := w.do("POST", "/v1/owners/ann/speedup", "", keyHeader, "k"); again != owner || owner.status != http.StatusOK {
		t.Errorf("owner: replayed %+v, want %+v", again, owner)
	}
	var events []string
	for _, line := range w.journal(id) {
		events = append(events, line.Event)
	}
	if got := fmt.Sprint(events); got != "[fed sped_up autofeed_armed sped_up meal_cancelled]" {
		t.Errorf("journal: %v", got)
	}
}

// A malformed request, or one for an unknown pet, may be repeated under its key.
func TestKeyIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	w.refused(w.do("POST", "/v1/pets", `{"owner":"ann"}`, keyHeader, "k"), http.StatusBadRequest, "invalid", "name")
	w.refused(w.do("POST", "/v1/pets", strings.Repeat(" ", 64<<10+1), keyHeader, "k"), http.StatusRequestEntityTooLarge, "too_large", "")
	w.refused(w.try("1", "feed", keyHeader, "k"), http.StatusNotFound, "not_found", "")
	id := want[pet.Pet](w, w.do("POST", "/v1/pets", `{"owner":"ann","name":"tom"}`, keyHeader, "k"), http.StatusCreated).ID
	if id != "1" {
		t.Fatalf("first pet is %s", id)
	}
	want[pet.Pet](w, w.try("1", "feed", keyHeader, "k"), http.StatusOK)
}

func TestKeyIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	send := func(name string) reply {
		return w.do("POST", "/v1/pets", `{"owner":"ann","name":"`+name+`"}`, keyHeader, "k")
	}
	first := send("tom")
	age := func(d time.Duration) {
		w.store.Exec("UPDATE pet_requests SET at_ms = ?", w.now().Add(-d).UnixMilli())
	}
	age(24*time.Hour - time.Minute)
	if again := send("tom"); again != first {
		t.Errorf("within 24 h: %+v, want %+v", again, first)
	}
	age(24 * time.Hour)
	second := send("tim")
	if want[pet.Pet](w, second, http.StatusCreated).Name != "tim" {
		t.Errorf("after 24 h: %+v", second)
	}
	if again := send("tim"); again != second {
		t.Errorf("the new answer: %+v, want %+v", again, second)
	}
	age(26 * time.Hour)
	w.do("POST", "/v1/pets", `{"owner":"ann","name":"tom"}`, keyHeader, "young")
	var n int64
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		n, err = pet.PurgeRequests(t.Context(), tx, 10)
		return err
	}))
	if n != 1 {
		t.Errorf("purged %d, want 1", n)
	}
}

// Of several requests at once one makes the change, and the others wait and get its answer.
func TestKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	for round := range 5 {
		id := w.create("ann").ID
		answers := make([]reply, 8)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = w.try(id, "feed", keyHeader, "k") })
		}
		all.Wait()
		for _, a := range answers {
			if a != answers[0] || a.status != http.StatusOK {
				t.Errorf("round %d: %+v and %+v", round, answers[0], a)
			}
		}
		if lines := w.journal(id); len(lines) != 1 {
			t.Errorf("round %d: %d meals were begun", round, len(lines))
		}
	}
}

// The second request waits while the first holds its key, and then gets the first's answer. It never has an answer of its
// own.
func TestKeyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	tx, err := w.store.DB().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "SELECT id FROM pets WHERE id = ? FOR UPDATE", id)
	pipelinetest.Must(t, err)
	answers := make(chan reply, 2)
	for range 2 {
		go func() { answers <- w.try(id, "feed", keyHeader, "k") }()
	}
	w.awaitWaiting(2)
	pipelinetest.Must(t, tx.Rollback())
	first, second := <-answers, <-answers
	if first != second || first.status != http.StatusOK || len(w.journal(id)) != 1 {
		t.Errorf("answers %+v and %+v, journal %+v", first, second, w.journal(id))
	}
}
