package pet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const maxBody = 64 << 10

var (
	ownerRule = regexp.MustCompile(`^[\p{L}\p{M}\p{N}._:-]+$`) // in any script
	idRule    = regexp.MustCompile(`^[0-9]+$`)
)

// API serves the game over HTTP. It is safe for concurrent use.
type API struct {
	game   *Game
	client *schedule.Client
	errs   Classifier
	logger *slog.Logger
	mux    *http.ServeMux

	lessons Lessons
	judge   judge
}

// Classifier classifies database errors.
type Classifier interface {
	// Unavailable reports whether the database is away.
	Unavailable(err error) bool
}

// NewAPI makes the handler of all paths under /v1/.
func NewAPI(game *Game, client *schedule.Client, errs Classifier, logger *slog.Logger) *API {
	a := &API{game: game, client: client, errs: errs, logger: logger, mux: http.NewServeMux()}
	a.mux.HandleFunc("POST /v1/pets", a.change(a.create))
	a.mux.HandleFunc("GET /v1/pets", a.listed(a.pets))
	a.mux.HandleFunc("GET /v1/journal", a.listed(a.journal))
	a.mux.HandleFunc("GET /v1/pets/{id}", a.get)
	a.mux.HandleFunc("POST /v1/pets/{id}/feed", a.change(onPet(game.Feed)))
	a.mux.HandleFunc("POST /v1/pets/{id}/speedup", a.change(onPet(game.Speedup)))
	a.mux.HandleFunc("POST /v1/pets/{id}/autofeed", a.change(onPet(game.Autofeed)))
	a.mux.HandleFunc("DELETE /v1/pets/{id}/meal", a.change(onPet(game.Cancel)))
	a.mux.HandleFunc("POST /v1/pets/{id}/mealtimes", a.change(a.setMealtimes))
	a.mux.HandleFunc("DELETE /v1/pets/{id}/mealtimes", a.change(onPet(game.EndMealtimes)))
	a.mux.HandleFunc("GET /v1/owners/{owner}/tasks", a.tasks)
	a.mux.HandleFunc("POST /v1/owners/{owner}/speedup", a.change(a.speedupOwner))
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The mux would redirect a client that wrote // or .., and answer in HTML.
	if p := path.Clean(r.URL.Path); p != strings.TrimSuffix(r.URL.Path, "/") && p != r.URL.Path {
		a.unknown(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, failure{http.StatusNotFound, "not_found", "no such path or method", ""})
}

func (a *API) create(_ *http.Request, body []byte) (operation, error) {
	var owner, name string
	if err := decode(body, fields{"owner": &owner, "name": &name}); err != nil {
		return nil, err
	}
	if err := errors.Join(checkOwner(owner), checkName(name)); err != nil {
		return nil, err // the API answers the first one
	}
	return func(ctx context.Context, tx *schedule.Tx) (answer, error) {
		p, err := a.game.Create(ctx, tx, owner, name)
		return answer{http.StatusCreated, encode(p)}, err
	}, nil
}

// onPet makes an operation on one pet that takes no input.
func onPet(act func(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error)) prepare {
	return func(r *http.Request, body []byte) (operation, error) {
		id, err := petID(r)
		if err != nil {
			return nil, err
		}
		if err := decodeNothing(body); err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx *schedule.Tx) (answer, error) {
			p, err := act(ctx, tx, id)
			return answer{http.StatusOK, encode(p)}, err
		}, nil
	}
}

func (a *API) speedupOwner(r *http.Request, body []byte) (operation, error) {
	owner := r.PathValue("owner")
	if err := checkOwner(owner); err != nil {
		return nil, err
	}
	if err := decodeNothing(body); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *schedule.Tx) (answer, error) {
		n, err := a.game.SpeedupOwner(ctx, tx, owner)
		return answer{http.StatusOK, encode(struct {
			Moved int `json:"moved"`
		}{n})}, err
	}, nil
}

func (a *API) get(w http.ResponseWriter, r *http.Request) {
	op, err := onPet(a.game.Get)(r, nil)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	ans, err := a.run(r, op)
	if err != nil { // also if its COMMIT is unknown: what took effect before the read may be undone
		a.fail(w, r, err)
		return
	}
	a.write(w, ans)
}

// read answers by an operation that changes nothing.
func (a *API) read(w http.ResponseWriter, r *http.Request, op operation) {
	ans, err := a.run(r, op)
	if err != nil && !errors.Is(err, schedule.ErrCommitUnknown) { // it has nothing to commit
		a.fail(w, r, err)
		return
	}
	a.write(w, ans)
}

// ownedTask is one line of an owner's list.
type ownedTask struct {
	TaskID  task.ID `json:"task_id"`
	Kind    string  `json:"kind"`
	PetID   string  `json:"pet_id"`
	DueAtMs int64   `json:"due_at_ms"`
}

func (a *API) tasks(w http.ResponseWriter, r *http.Request) {
	owner, query := r.PathValue("owner"), r.URL.Query()
	from := query.Get("source")
	limit, err := pageLimit(query.Get("limit"), task.MaxPerCall, task.MaxPerCall)
	if err := errors.Join(checkOwner(owner), checkSource(from), err); err != nil {
		a.fail(w, r, err)
		return
	}
	list := a.client.TasksPage
	if from == "db" {
		list = a.client.TasksPageFromDB
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	page, err := list(ctx, owner, "", schedule.Page{Limit: limit, After: query.Get("cursor")})
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		Source string      `json:"source"`
		Tasks  []ownedTask `json:"tasks"`
		Next   string      `json:"next,omitempty"` // cursor of the next page; absent on the last one
	}{Source: page.Source, Tasks: make([]ownedTask, 0, len(page.Tasks)), Next: page.Next}
	for _, t := range page.Tasks {
		out.Tasks = append(out.Tasks, ownedTask{TaskID: t.ID, Kind: t.Kind, PetID: t.Subject, DueAtMs: t.RunAt.UnixMilli()})
	}
	a.write(w, answer{http.StatusOK, encode(out)})
}

// pageLimit reads how many entries a list may have: 1 to limit, and so many as usual without a text.
func pageLimit(text string, usual, limit int) (int, error) {
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0, invalid("limit", "must be a number from 1 to "+strconv.Itoa(limit))
	}
	return n, nil
}

func checkSource(s string) error {
	if s != "" && s != "db" {
		return invalid("source", "must be db or absent")
	}
	return nil
}

// petID reads the path's id. A number that no pet can have is errNoPet.
func petID(r *http.Request) (int64, error) {
	text := r.PathValue("id")
	if !idRule.MatchString(text) {
		return 0, invalid("id", "must be a decimal number")
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != text {
		return 0, errNoPet
	}
	return id, nil
}

// checkOwner wants what duetime takes for an owner, without what would part an address.
func checkOwner(text string) error {
	switch {
	case text == "" || len(text) <= task.MaxOwner && !ownerRule.MatchString(text):
		return invalid("owner", fmt.Sprintf("must be 1 to %d bytes of letters, digits and . _ : -", task.MaxOwner))
	case len(text) > task.MaxOwner:
		return invalid("owner", fmt.Sprintf("has %d bytes as UTF-8, of %d at most", len(text), task.MaxOwner))
	}
	return nil
}

// maxName is the length of a pet's name, in characters.
const maxName = 64

// checkName wants a name that can be seen: in any script, with spaces in it, and symbols.
func checkName(text string) error {
	n := utf8.RuneCountInString(text)
	unseen := func(r rune) bool { return !unicode.IsGraphic(r) && r != zeroWidthNonJoiner && r != zeroWidthJoiner }
	switch {
	case n < 1 || n > maxName:
		return invalid("name", fmt.Sprintf("has %d characters, and must have 1 to %d", n, maxName))
	case strings.ContainsFunc(text, unseen):
		return invalid("name", "must not have characters that can't be seen")
	case strings.TrimSpace(text) != text:
		return invalid("name", "must not begin or end with a space")
	}
	return nil
}

// Characters without a width that some scripts and emojis need.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all values are of the API's own types
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
