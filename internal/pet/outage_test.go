package pet_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// everyPath sends a request to each path, with a key if the path allows it, and fails the test if an answer is late.
func (w *world) everyPath(id, key string, limit time.Duration) map[string]reply {
	w.t.Helper()
	answers := map[string]reply{}
	for _, to := range []string{
		"POST /v1/pets", "GET /v1/pets/" + id, "POST /v1/pets/" + id + "/feed", "POST /v1/pets/" + id + "/speedup",
		"POST /v1/pets/" + id + "/autofeed", "DELETE /v1/pets/" + id + "/meal", "POST /v1/owners/ann/speedup",
		"GET /v1/owners/ann/tasks?source=db",
	} {
		method, path, _ := strings.Cut(to, " ")
		body := ""
		if path == "/v1/pets" {
			body = `{"owner":"ann","name":"tom"}`
		}
		began := time.Now()
		answers[to] = w.do(method, path, body, keyHeader, key)
		if took := time.Since(began); took > limit {
			w.t.Errorf("%s took %v, more than %v", to, took, limit)
		}
	}
	return answers
}

func TestMySQLAway(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t)
	w := onSchema(t, start, server.NewSchema(t))
	id := w.create("ann").ID
	w.act(id, "feed")
	unavailable := func(answers map[string]reply) {
		t.Helper()
		for to, got := range answers {
			if got.status != http.StatusServiceUnavailable || want[refusal](w, got, got.status).Error.Code != "unavailable" {
				t.Errorf("%s: %+v", to, got)
			}
		}
	}
	pipelinetest.Must(t, server.Kill())
	unavailable(w.everyPath(id, "k", 7*time.Second))
	pipelinetest.Must(t, server.Start())
	// The 503 was not stored under its key.
	if p := want[pet.Pet](w, w.try(id, "speedup", keyHeader, "k"), http.StatusOK); p.SpeedupCards != 9 {
		t.Errorf("after the outage: %+v", p)
	}
	pipelinetest.Must(t, server.Freeze())
	began := time.Now()
	done := make(chan reply)
	for _, to := range []string{"GET /v1/pets/" + id, "POST /v1/pets/" + id + "/feed", "GET /v1/owners/ann/tasks?source=db"} {
		method, path, _ := strings.Cut(to, " ")
		go func() { done <- w.do(method, path, "") }()
	}
	for i := range 3 {
		unavailable(map[string]reply{fmt.Sprint("frozen ", i): <-done})
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("a frozen server took %v of the players' time", took)
	}
	pipelinetest.Must(t, server.Thaw())
	if p := w.see(id); p.Meal == nil || p.SpeedupCards != 9 {
		t.Errorf("after the thaw: %+v", p)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	whats := []string{"feed", "speedup", "autofeed", "cancel"}
	ids := make([]string, len(whats))
	for i := range whats {
		ids[i] = w.create("ann").ID
		w.act(ids[i], "feed")
	}
	tx, err := w.store.DB().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "SELECT id FROM pets FOR UPDATE")
	pipelinetest.Must(t, err)
	// A plain statement waits beside the calls. It waits for 2 s, the limit of its session, and as long as the machine adds.
	// A call that waited twice comes 2 s later.
	longer := func() time.Duration {
		done, plain := make(chan reply), make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			_, err := w.store.DB().ExecContext(t.Context(), "SELECT id FROM pets FOR UPDATE")
			if !errors.Is(err, &mysql.MySQLError{Number: 1205}) {
				t.Errorf("beside them: %v", err)
			}
			plain <- time.Since(began)
		}()
		for i, what := range whats {
			go func() { done <- w.try(ids[i], what, keyHeader, "k") }()
		}
		for range whats {
			w.refused(<-done, http.StatusServiceUnavailable, "busy", "")
		}
		return time.Since(began) - <-plain
	}
	more := longer()
	for range 2 {
		if more > time.Second {
			more = min(more, longer())
		}
	}
	if more > time.Second {
		t.Errorf("said busy %v after a statement that waits once", more)
	}
	w.refused(w.do("POST", "/v1/owners/ann/speedup", ""), http.StatusServiceUnavailable, "busy", "")
	for _, id := range ids { // reads need no lock
		if p := w.see(id); p.Meal == nil || p.Food != 99 || p.Meal.Version != 1 {
			t.Errorf("while locked: %+v", p)
		}
	}
	pipelinetest.Must(t, tx.Rollback())
	want[pet.Pet](w, w.try(ids[1], "speedup", keyHeader, "k"), http.StatusOK) // the 503 was not stored
}

// A worker or an operator may hold the task's row too.
func TestBusyTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	meal := w.act(id, "feed").Meal
	tx, err := w.store.DB().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "SELECT id FROM duetime_tasks WHERE id = ? FOR UPDATE", meal.TaskID[:])
	pipelinetest.Must(t, err)
	w.refused(w.try(id, "cancel"), http.StatusServiceUnavailable, "busy", "")
	if p := w.act(id, "autofeed"); p.AutofeedArmed != 1 { // needs only the pet
		t.Errorf("armed: %+v", p)
	}
}

// The answer depends only on MySQL: without Redis and Kafka a change takes less than a second, and the list comes from
// the database.
func TestIndexAway(t *testing.T) {
	t.Parallel()
	redis := pipelinetest.OwnRedis(t)
	for _, outage := range []struct {
		name  string
		begin func() error
	}{{"frozen", redis.Freeze}, {"gone", redis.Kill}} {
		t.Run(outage.name, func(t *testing.T) {
			w := newWorld(t, start)
			cfg := duetime.DefaultConfig()
			cfg.MySQL.DSN, cfg.Redis.Addrs, cfg.Kafka.Brokers = duetime.DSN(w.store.DSN), []string{redis.Addr()}, []string{"127.0.0.1:1"}
			client, err := duetime.Open(cfg, duetime.WithLogger(quiet), duetime.Handlers(w.game.Handlers()))
			pipelinetest.Must(t, err)
			t.Cleanup(func() { _ = client.Close(t.Context()) })
			w.api = pet.NewAPI(w.game, client.Client, client, quiet)
			id := w.create("ann").ID
			pipelinetest.Must(t, outage.begin())
			for i := range 4 {
				for to, got := range w.everyPath(id, fmt.Sprint("k", i), time.Second) {
					if got.status >= http.StatusInternalServerError {
						t.Errorf("%s: %+v", to, got)
					}
				}
			}
			w.act(id, "feed")
			list := w.do("GET", "/v1/owners/ann/tasks", "")
			if list.status != http.StatusOK || !strings.HasPrefix(list.body, `{"source":"db","tasks":[{`) {
				t.Errorf("list: %+v", list)
			}
			if outage.name == "frozen" {
				pipelinetest.Must(t, redis.Thaw())
			}
		})
	}
}
