package pet

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const maxBody = 64 << 10

// nameRule is what owners and names look like.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// API serves the game over HTTP. It is safe for concurrent use.
type API struct {
	game   *Game
	client *schedule.Client
	errs   Classifier
	logger *slog.Logger
	mux    *http.ServeMux
}

// Classifier tells what kind of trouble a database error is.
type Classifier interface {
	// Unavailable tells whether the database is away.
	Unavailable(err error) bool
}

// NewAPI makes the handler of all paths under /v1/.
func NewAPI(game *Game, client *schedule.Client, errs Classifier, logger *slog.Logger) *API {
	a := &API{game: game, client: client, errs: errs, logger: logger, mux: http.NewServeMux()}
	a.mux.HandleFunc("POST /v1/pets", a.change(a.create))
	a.mux.HandleFunc("GET /v1/pets/{id}", a.get)
	a.mux.HandleFunc("POST /v1/pets/{id}/feed", a.change(onPet(game.Feed)))
	a.mux.HandleFunc("POST /v1/pets/{id}/speedup", a.change(onPet(game.Speedup)))
	a.mux.HandleFunc("POST /v1/pets/{id}/autofeed", a.change(onPet(game.Autofeed)))
	a.mux.HandleFunc("DELETE /v1/pets/{id}/meal", a.change(onPet(game.Cancel)))
	a.mux.HandleFunc("GET /v1/owners/{owner}/tasks", a.tasks)
	a.mux.HandleFunc("POST /v1/owners/{owner}/speedup", a.change(a.speedupOwner))
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.refuse(w, failure{http.StatusNotFound, "not_found", "no such path or method", ""})
	})
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// operation is one change, already checked; it may run several times, each in a transaction of its own.
type operation func(ctx context.Context, tx *schedule.Tx) (status int, body any, err error)

// prepare checks a request and says what it changes.
type prepare func(r *http.Request, body []byte) (operation, error)

func (a *API) create(_ *http.Request, body []byte) (operation, error) {
	var in struct {
		Owner string `json:"owner"`
		Name  string `json:"name"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if !nameRule.MatchString(in.Owner) {
		return nil, invalid("owner", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	}
	if !nameRule.MatchString(in.Name) {
		return nil, invalid("name", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	}
	return func(ctx context.Context, tx *schedule.Tx) (int, any, error) {
		p, err := a.game.Create(ctx, tx, in.Owner, in.Name)
		return http.StatusCreated, p, err
	}, nil
}

// onPet makes a change of one pet, which takes no input.
func onPet(act func(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error)) prepare {
	return func(r *http.Request, body []byte) (operation, error) {
		id, err := petID(r)
		if err != nil {
			return nil, err
		}
		if err := decodeNothing(body); err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx *schedule.Tx) (int, any, error) {
			p, err := act(ctx, tx, id)
			return http.StatusOK, p, err
		}, nil
	}
}

func (a *API) speedupOwner(r *http.Request, body []byte) (operation, error) {
	owner, err := ownerOf(r)
	if err != nil {
		return nil, err
	}
	if err := decodeNothing(body); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *schedule.Tx) (int, any, error) {
		n, err := a.game.SpeedupOwner(ctx, tx, owner)
		return http.StatusOK, struct {
			Moved int `json:"moved"`
		}{n}, err
	}, nil
}

func (a *API) get(w http.ResponseWriter, r *http.Request) {
	id, err := petID(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	var p Pet
	err = a.client.InTx(r.Context(), func(tx *schedule.Tx) (err error) {
		p, err = a.game.Get(r.Context(), tx, id)
		return err
	})
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.write(w, answer{http.StatusOK, encode(p)})
}

// ownedTask is one line of an owner's list.
type ownedTask struct {
	TaskID  task.ID `json:"task_id"`
	Kind    string  `json:"kind"`
	PetID   string  `json:"pet_id"`
	DueAtMs int64   `json:"due_at_ms"`
}

func (a *API) tasks(w http.ResponseWriter, r *http.Request) {
	owner, err := ownerOf(r)
	if err == nil {
		err = checkSource(r.URL.Query().Get("source"))
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	list := a.client.Tasks
	if r.URL.Query().Get("source") == "db" {
		list = a.client.TasksFromDB
	}
	tasks, source, err := list(r.Context(), owner, "")
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		Source string      `json:"source"`
		Tasks  []ownedTask `json:"tasks"`
	}{Source: source, Tasks: make([]ownedTask, 0, len(tasks))}
	for _, t := range tasks {
		out.Tasks = append(out.Tasks, ownedTask{TaskID: t.ID, Kind: t.Kind, PetID: t.Subject, DueAtMs: t.Score.RunAt().UnixMilli()})
	}
	a.write(w, answer{http.StatusOK, encode(out)})
}

func checkSource(s string) error {
	if s != "" && s != "db" {
		return invalid("source", "must be db or absent")
	}
	return nil
}

func petID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != r.PathValue("id") {
		return 0, invalid("id", "must be a decimal number above 0")
	}
	return id, nil
}

func ownerOf(r *http.Request) (string, error) {
	owner := r.PathValue("owner")
	if !nameRule.MatchString(owner) {
		return "", invalid("owner", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	}
	return owner, nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the API's own types
	}
	return append(b, '\n')
}

func (a *API) write(w http.ResponseWriter, ans answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(ans.status)
	if _, err := w.Write(ans.body); err != nil {
		a.logger.Debug("answer not written", "err", err)
	}
}
