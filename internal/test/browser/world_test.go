package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// world is a deployment of our processes, with the command duetime console and a browser.
type world struct {
	pipelinetest.Deployment

	t       *testing.T
	store   *store.Store
	browser context.Context // chromedp's handle of the browser
	console string          // where the console's page is
	game    string          // where the game's page is
	worker  pipelinetest.App
}

// newWorld starts all of it, with meals of a length. A speed-up card takes half of it off.
func newWorld(t *testing.T, meal time.Duration) *world {
	t.Helper()
	w := &world{t: t, Deployment: pipelinetest.SharedDeployment(t), browser: openBrowser(t)}
	w.Rules = append(w.Rules, "DUETIME_GAME__MEAL="+meal.String(), "DUETIME_GAME__SPEEDUP="+(meal/2).String())
	var err error
	w.store, err = store.Open(w.DSN, store.Options{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, w.store.Close()) })
	for _, name := range []string{"event", "daemon"} {
		w.Ready(t, name)
	}
	w.worker = w.Ready(t, "worker")
	w.console = w.Console(t)
	w.game = w.Ready(t, "game", "DUETIME_GAME__CONSOLE="+w.console).URL(t, "game") + "/"
	res, err := http.Post(w.game+"v1/pets", "application/json", strings.NewReader(`{"owner":"nobody","name":"first"}`))
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, res.Body.Close())
	want(t, "status of a new pet, whose meals end", res.StatusCode, http.StatusCreated)
	return w
}

// mortal lets the game's page kill the worker. What it returns starts a successor, which is known before it works.
func (w *world) mortal() (succeed func()) {
	folder := w.t.TempDir()
	noted := func(app pipelinetest.App) {
		w.t.Helper()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", app.Pid()))
		pipelinetest.Must(w.t, err)
		_, rest, _ := strings.Cut(string(stat), ") ")
		text := fmt.Sprintf("%d %s\n", app.Pid(), strings.Fields(rest)[19])
		pipelinetest.Must(w.t, os.WriteFile(filepath.Join(folder, "worker-1.pid"), []byte(text), 0o600))
	}
	noted(w.worker)
	w.game = w.Ready(w.t, "game", "DUETIME_GAME__CONSOLE="+w.console, "DUETIME_GAME__LESSONS="+folder).URL(w.t, "game") + "/"
	return func() { noted(w.Start(w.t, "worker")) }
}

// change makes changes in a transaction, as a service does.
func (w *world) change(fn func(tx *schedule.Tx) error) {
	w.t.Helper()
	tx, err := w.store.Begin(w.t.Context())
	pipelinetest.Must(w.t, err)
	defer func() { _ = tx.Rollback() }()
	changes := schedule.NewTx(tx, w.store)
	pipelinetest.Must(w.t, fn(changes))
	pipelinetest.Must(w.t, tx.Commit())
}

// schedule makes tasks for the owner, which are due after a while.
func (w *world) schedule(owner string, in ...time.Duration) []task.Task {
	w.t.Helper()
	var made []task.Task
	w.change(func(tx *schedule.Tx) error {
		for i, d := range in {
			one, err := tx.Schedule(w.t.Context(), pet.MealFinished.New(owner, pet.MealPayload{PetID: 1}, task.In(d), task.Subject(fmt.Sprint(i))))
			if err != nil {
				return err
			}
			made = append(made, one)
		}
		return nil
	})
	return made
}

// recur makes a recurrence.
func (w *world) recur(owner, name string) {
	w.t.Helper()
	w.change(func(tx *schedule.Tx) error {
		_, err := tx.Recur(w.t.Context(), name, recur.Cron("0 8 * * *", "Asia/Shanghai"), pet.Mealtime.Recurring(owner, pet.MealPayload{PetID: 1}), recur.Policy{})
		return err
	})
}

// dead makes rows of dead tasks, as workers leave them.
func (w *world) dead(owner, reason string, n int) []task.Task {
	w.t.Helper()
	spans := make([]time.Duration, n)
	for i := range spans {
		spans[i] = time.Hour
	}
	made := w.schedule(owner, spans...)
	for i, one := range made {
		made[i] = transition.Discard(one, fmt.Errorf("%s %d", reason, i), time.Now())
	}
	pipelinetest.Must(w.t, worldtest.Save(w.t.Context(), w.store, w.store.DB(), made...))
	return made
}

// row reads a task as MySQL has it.
func (w *world) row(id task.ID) task.Task {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), w.store.DB(), []task.ID{id})
	pipelinetest.Must(w.t, err)
	if len(rows) != 1 {
		w.t.Fatalf("there is no task %s", id)
	}
	return rows[0]
}

// pauses counts the queues that are paused.
func (w *world) pauses() int {
	w.t.Helper()
	paused, err := w.store.Paused(w.t.Context())
	pipelinetest.Must(w.t, err)
	return len(paused)
}

func (w *world) number(query string, args ...any) (n int) {
	w.t.Helper()
	pipelinetest.Must(w.t, w.store.DB().GetContext(w.t.Context(), &n, query, args...))
	return n
}

func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	_, err := w.store.DB().ExecContext(w.t.Context(), statement, args...)
	pipelinetest.Must(w.t, err)
}

// do runs a part of a test: a view, and what is done there.
func (w *world) do(t *testing.T, base, name string, run func(w *world, p *tab)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		here := *w
		here.t = t
		run(&here, openTab(t, w.browser, base))
	})
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantHas(t *testing.T, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want %q in it", what, got, part)
	}
}
