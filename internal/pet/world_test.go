package pet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// start are the rules of most tests: no meal ends by itself.
var start = pet.Rules{Meal: 4 * time.Hour, Speedup: 2 * time.Hour, Food: 100, SpeedupCards: 10, AutofeedCards: 10}

var quiet = slog.New(slog.DiscardHandler)

// world is the game on a database, with its API and a worker that runs the meals that a test gives it.
type world struct {
	*embedded.Pipeline
	t     testing.TB
	rules pet.Rules
	game  *pet.Game
	api   http.Handler
	store *worldtest.Store // another handle, for actions of operators and workers
}

func newWorld(t testing.TB, rules pet.Rules) *world {
	t.Helper()
	return onSchema(t, rules, worldtest.Schema(t))
}

func onSchema(t testing.TB, rules pet.Rules, dsn string) *world {
	t.Helper()
	game := pet.NewGame(rules)
	p, err := embedded.OpenMySQL(t.Context(), dsn, embedded.Config{Logger: quiet, Handlers: game.Handlers()})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	for range 2 { // the call can be repeated
		pipelinetest.Must(t, pet.CreateTables(t.Context(), p.DB()))
	}
	return &world{Pipeline: p, t: t, rules: rules, game: game, api: pet.NewAPI(game, p.Client, p, quiet), store: worldtest.OpenStore(t, dsn, store.Options{})}
}

func (w *world) tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return w.store.Get(ctx, nil, ids)
}

// reply is the answer to a request.
type reply struct {
	status int
	body   string
}

func (w *world) do(method, path, body string, header ...string) reply {
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(w.t.Context())
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
	}
	return w.serve(r)
}

func (w *world) serve(r *http.Request) reply {
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	if got := rec.Header().Get("Content-Type"); got != "application/json" {
		w.t.Errorf("%s %s: Content-Type %q", r.Method, r.URL.Path, got)
	}
	return reply{rec.Code, rec.Body.String()}
}

// want decodes the answer and checks its status.
func want[T any](w *world, got reply, status int) (v T) {
	w.t.Helper()
	if got.status != status {
		w.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	d := json.NewDecoder(strings.NewReader(got.body))
	d.DisallowUnknownFields()
	pipelinetest.Must(w.t, d.Decode(&v))
	return v
}

// refusal is an error's body.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field"`
	} `json:"error"`
}

func (w *world) refused(got reply, status int, code, field string) {
	w.t.Helper()
	if got.status != status {
		w.t.Errorf("status %d, want %d: %s", got.status, status, got.body)
		return
	}
	e := want[refusal](w, got, status).Error
	if e.Code != code || e.Field != field || e.Message == "" {
		w.t.Errorf("code %q, field %q, message %q; want code %q, field %q and a message", e.Code, e.Field, e.Message, code, field)
	}
}

func (w *world) create(owner string) pet.Pet {
	w.t.Helper()
	return want[pet.Pet](w, w.do("POST", "/v1/pets", fmt.Sprintf(`{"owner":%q,"name":"tom"}`, owner)), http.StatusCreated)
}

// act calls feed, speedup, autofeed or cancel; the answer must be 200.
func (w *world) act(id, what string) pet.Pet {
	w.t.Helper()
	return want[pet.Pet](w, w.try(id, what), http.StatusOK)
}

func (w *world) try(id, what string, header ...string) reply {
	if what == "cancel" {
		return w.do("DELETE", "/v1/pets/"+id+"/meal", "", header...)
	}
	return w.do("POST", "/v1/pets/"+id+"/"+what, "", header...)
}

func (w *world) see(id string) pet.Pet {
	w.t.Helper()
	return want[pet.Pet](w, w.do("GET", "/v1/pets/"+id, ""), http.StatusOK)
}

func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	return now
}

// due sets the due time of meals, as if it had been promised.
func (w *world) due(at time.Time, ids ...task.ID) {
	w.t.Helper()
	for _, id := range ids {
		w.store.Exec("UPDATE duetime_tasks SET due_at = ?, run_at = ? WHERE id = ?", at.UnixMilli(), at.UnixMilli(), id[:])
	}
}

// fire runs the tasks, which must be due, in a worker's own transactions.
func (w *world) fire(ids ...task.ID) []engine.Outcome {
	w.t.Helper()
	wk, err := engine.New(engine.Config{Logger: quiet}, w.game.Handlers(), w.store, deaf{}, deaf{}, deaf{})
	pipelinetest.Must(w.t, err)
	rows := make([]task.Task, len(ids))
	for i, id := range ids {
		rows[i] = w.store.Row(id)
	}
	outcomes, err := wk.Pass(w.t.Context(), worldtest.Hints(rows...))
	pipelinetest.Must(w.t, err)
	return outcomes
}

// deaf is a stream without hints.
type deaf struct{ worldtest.Nowhere }

func (deaf) Consume(context.Context, string, func(context.Context, protocol.Session) error) error {
	return nil
}

// entry is a line of the journal.
type entry struct {
	PetID   int64  `db:"pet_id"`
	Owner   string `db:"owner"`
	Event   string `db:"event"`
	TaskID  string `db:"task_id"`
	Version int64  `db:"version"`
	DueAtMs int64  `db:"due_at_ms"`
	AtMs    int64  `db:"at_ms"`
}

func (w *world) journal(id string) []entry {
	w.t.Helper()
	var lines []entry
	pipelinetest.Must(w.t, w.store.DB().SelectContext(w.t.Context(), &lines,
		"SELECT pet_id, owner, event, task_id, version, due_at_ms, at_ms FROM pet_journal WHERE pet_id = ? ORDER BY seq", id))
	return lines
}

// awaitWaiting returns when this many of the schema's transactions wait for a lock.
func (w *world) awaitWaiting(n int) {
	w.t.Helper()
	pipelinetest.Await(w.t, "statements that wait", func() bool { return pipelinetest.LockWaits(w.t, w.store.DB()) >= n })
}
