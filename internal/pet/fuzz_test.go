package pet_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/pkg/task"
)

// documented are the error codes that an answer of each status may have.
var documented = map[int][]string{
	http.StatusBadRequest:            {"invalid"},
	http.StatusNotFound:              {"not_found"},
	http.StatusConflict:              {"already_eating", "no_food", "not_eating", "no_card"},
	http.StatusRequestEntityTooLarge: {"too_large"},
	http.StatusUnprocessableEntity:   {"key_reused"},
}

// sound checks that cmd/game/README.md lists the answer. A refusal of the input must name the field.
func (w *world) sound(t *testing.T, got reply) (field string) {
	t.Helper()
	here := *w
	here.t = t
	if got.status < http.StatusBadRequest {
		want[map[string]any](&here, got, got.status)
		return ""
	}
	e := want[refusal](&here, got, got.status).Error
	invalid := got.status == http.StatusBadRequest
	if !slices.Contains(documented[got.status], e.Code) || e.Message == "" || invalid && e.Field == "" {
		t.Fatalf("an answer that nobody expects: %+v", got)
	}
	return e.Field
}

// FuzzAPI sends any body, with or without an Idempotency-Key, to every path that changes something. A repeated request
// must get the first answer; with another body it must be refused.
func FuzzAPI(f *testing.F) {
	w := newWorld(f, start)
	id := w.create("ann").ID
	paths := [][2]string{
		{"POST", "/v1/pets"},
		{"POST", "/v1/pets/" + id + "/feed"},
		{"POST", "/v1/pets/" + id + "/speedup"},
		{"POST", "/v1/pets/" + id + "/autofeed"},
		{"DELETE", "/v1/pets/" + id + "/meal"},
		{"POST", "/v1/owners/ann/speedup"},
	}
	for which := range uint8(6) {
		f.Add(which, `{"owner":"ann","name":"tom"}`, true, "key")
		f.Add(which, `{}`, true, "key")
		f.Add(which, ``, false, "")
		f.Add(which, `{"owner":{"a":[1e999,"\ud800"]},"name":null}`, true, "\x00")
		f.Add(which, `{"owner":"ann","name":"tom","":""}`, false, "")
	}
	keyForm := regexp.MustCompile(`^[ -~]{1,128}$`)
	f.Fuzz(func(t *testing.T, which uint8, body string, keyed bool, key string) {
		here := *w
		here.t = t
		to, header := paths[int(which)%len(paths)], []string{}
		if keyed {
			header = []string{keyHeader, key}
		}
		got := here.do(to[0], to[1], body, header...)
		field := w.sound(t, got)
		switch {
		case keyed && len(body) <= 64<<10 && !keyForm.MatchString(key):
			if got.status != http.StatusBadRequest || field != keyHeader {
				t.Fatalf("key %q: %+v", key, got)
			}
		case keyed && (got.status < http.StatusBadRequest || got.status == http.StatusConflict):
			if again := here.do(to[0], to[1], body, header...); again != got {
				t.Fatalf("%+v, and when repeated %+v", got, again)
			}
			if len(body) < 64<<10 {
				here.refused(here.do(to[0], to[1], body+" ", header...), http.StatusUnprocessableEntity, "key_reused", keyHeader)
			}
		}
	})
}

// FuzzPath asks for any pet and any owner: a malformed name must be refused, an unknown one must not be found.
func FuzzPath(f *testing.F) {
	w := newWorld(f, start)
	id := w.create("ann").ID
	paths := []struct{ method, before, after, field string }{
		{"GET", "/v1/pets/", "", "id"},
		{"POST", "/v1/pets/", "/feed", "id"},
		{"POST", "/v1/pets/", "/speedup", "id"},
		{"POST", "/v1/pets/", "/autofeed", "id"},
		{"DELETE", "/v1/pets/", "/meal", "id"},
		{"GET", "/v1/owners/", "/tasks", "owner"},
		{"POST", "/v1/owners/", "/speedup", "owner"},
	}
	for which := range uint8(7) {
		for _, name := range []string{id, "01", "9223372036854775808", "-1", "ann", "a b", "..", "", "a/b", "\x00", "١", "{id}", "%2F"} {
			f.Add(which, name, "")
		}
		f.Add(which, "ann", "db")
		f.Add(which, "ann", "redis&source=db")
	}
	digits, names := regexp.MustCompile(`^[0-9]+$`), regexp.MustCompile(`^[\p{L}\p{M}\p{N}._:-]+$`)
	f.Fuzz(func(t *testing.T, which uint8, name, source string) {
		here := *w
		here.t = t
		to := paths[int(which)%len(paths)]
		got := here.do(to.method, to.before+url.PathEscape(name)+to.after+"?source="+url.QueryEscape(source), "")
		field := w.sound(t, got)
		status := http.StatusBadRequest
		switch {
		case name == "" || name == "." || name == ".." || strings.Contains(name, "/"):
			if got.status == http.StatusNotFound {
				return // the text made another path
			}
		case to.field == "id" && name == id:
			status = got.status // depends on earlier requests
		case to.field == "id" && digits.MatchString(name):
			status = http.StatusNotFound
		case to.field == "owner" && len(name) <= task.MaxOwner && names.MatchString(name) && (to.method == "POST" || source == "" || source == "db"):
			status = http.StatusOK
		case to.field == "owner" && len(name) <= task.MaxOwner && names.MatchString(name):
			to.field = "source"
		}
		if got.status != status || status == http.StatusBadRequest && field != to.field {
			t.Fatalf("%q from %q: %+v, want status %d and field %q", name, source, got, status, to.field)
		}
		if got.status == http.StatusOK && to.field == "id" && want[pet.Pet](&here, got, http.StatusOK).ID != id {
			t.Fatalf("%q: %+v", name, got)
		}
	})
}
