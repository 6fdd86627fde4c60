package consoleweb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// place is a view with an address of its own.
type place struct {
	name string
	key  string // of the keyboard, after g; empty: the view is not in the menu
	menu string // the view of the menu to which this one belongs
	read func(ctx context.Context, v *visit) (any, error)
}

// places lists the views, those of the menu in its order.
func places() []place {
	return []place{
		{"now", "n", "now", readNow},
		{"tasks", "t", "tasks", readSearch},
		{"dead", "d", "dead", readDead},
		{"changes", "c", "changes", readChanges},
		{"system", "s", "system", readSystem},
		{"owner", "", "tasks", readOwner},
		{"task", "", "tasks", readTask},
		{"group", "", "tasks", readGroup},
		{"operation", "", "changes", readOperation},
	}
}

// moved are the addresses that views had before, which lead to where they are.
func moved() map[string]string {
	return map[string]string{
		"ahead": "now", "lag": "now", "health": "system", "search": "tasks", "operations": "changes", "audit": "changes",
	}
}

// visit is one request: who asks, in which language and zone.
type visit struct {
	site *site
	r    *http.Request
	c    *console.Console // whose changes bear the user's name
	who  identity
	now  time.Time
	zone *time.Location
	lang string
}

// Names of the cookies. The pages' script sets the zone.
const (
	cookieZone  = "duetime_zone"
	cookieLang  = "duetime_lang"
	cookieTheme = "duetime_theme"
)

func (s *site) visit(r *http.Request, who identity) *visit {
	zone := zoneOf(cookieOf(r, cookieZone))
	return &visit{
		site: s, r: r, c: s.c.As(who.actor()), who: who, now: time.Now().In(zone), zone: zone,
		lang: langOf(cookieOf(r, cookieLang), r.Header.Get("Accept-Language")),
	}
}

func cookieOf(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	value, err := url.QueryUnescape(cookie.Value)
	if err != nil {
		return ""
	}
	return value
}

const maxZoneName = 64

// zoneOf returns UTC for a name that is none. "Local" would be this machine's zone.
func zoneOf(name string) *time.Location {
	if name == "" || name == "Local" || len(name) > maxZoneName {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// view is what a template gets. Its methods, and those of visit, are the templates' functions.
type view struct {
	*visit
	Name    string // of the place
	Data    any
	Mistake string // why there is no data, or what is wrong with the form
}

// T is a message in the user's language.
func (v *visit) T(key string, args ...any) string { return say(v.lang, key, args...) }

// Lang is the language of the page.
func (v *visit) Lang() string { return v.lang }

// Zone is the name of the zone in which times are shown.
func (v *visit) Zone() string { return v.zone.String() }

// User is the name under which changes stand in the history; empty for somebody who is not signed in.
func (v *visit) User() string {
	if v.who.name == "" {
		return ""
	}
	return v.who.actor()
}

// Theme is the user's choice: light, dark, or empty for what the browser prefers.
func (v *visit) Theme() string {
	if theme := cookieOf(v.r, cookieTheme); slices.Contains([]string{"light", "dark"}, theme) {
		return theme
	}
	return ""
}

// Here is the address of this page, relative.
func (v *visit) Here() string {
	q := v.r.URL.Query()
	q.Del("part")
	return strings.TrimSuffix(path.Base(v.r.URL.Path)+"?"+q.Encode(), "?")
}

// Live is the address of the part of this page that is read again and again, relative.
func (v *visit) Live() string {
	q := v.r.URL.Query()
	q.Set("part", "live")
	return path.Base(v.r.URL.Path) + "?" + q.Encode()
}

// IsPart reports whether a part of the page is written, and not its menu.
func (v *visit) IsPart() bool { return v.r.FormValue("part") != "" }

// Menu lists the views of the menu.
func (v *visit) Menu() []menuItem {
	var items []menuItem
	for _, at := range places() {
		if at.key != "" {
			items = append(items, menuItem{at.name, at.key})
		}
	}
	return items
}

// InMenu is the view of the menu to which this page belongs.
func (v view) InMenu() string {
	for _, at := range places() {
		if at.name == v.Name {
			return at.menu
		}
	}
	return ""
}

// menuItem is a view of the menu.
type menuItem struct{ Name, Key string }

// StateNames are the states of tasks in their order.
func (v *visit) StateNames() []string { return stateNames() }

// May reports whether the user has the verb.
func (v *visit) May(verb string) bool { return v.who.grant.May(verb) }

// Static is the address of a file, with what changes when the file does.
func (v *visit) Static(name string) string { return "static/" + name + "?v=" + staticVersion() }

// Link is a relative address with a query of names and values; empty values are left out.
func (v *visit) Link(name string, pairs ...any) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := textOf(pairs[i+1]); value != "" {
			q.Set(textOf(pairs[i]), value)
		}
	}
	return strings.TrimSuffix(name+"?"+q.Encode(), "?")
}

func textOf(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int:
		return strconv.Itoa(value)
	case int64:
		return strconv.FormatInt(value, 10)
	case interface{ String() string }:
		return value.String()
	}
	return ""
}

// LifeOf is a history for the template of that name.
func (v *visit) LifeOf(lines []console.Happened) lifeTable { return lifeTable{v, lines} }

type lifeTable struct {
	*visit
	Lines []console.Happened
}

// Hides reports whether payloads are hidden from the user.
func (v *visit) Hides() bool { return v.site.cfg.HidePayloads && v.who.grant.Role == RoleRead }

// templates are parsed when the first page is asked for: a service that serves none does not pay for them. Each view has the
// layout's blocks with its own.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.ParseFS(pageFiles, "page/layout.html", "page/parts.html"))
	names, err := fs.Glob(pageFiles, "page/*.html")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	sets := map[string]*template.Template{}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		sets[name] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, file))
	}
	return sets
})

// render writes a page, or one block of it.
func (s *site) render(w http.ResponseWriter, status int, name, block string, data view) {
	if block != "main" && block != "live" && (block != partCount || name != "tasks") || name == "refused" && block == "live" {
		block = "layout.html"
	}
	var b bytes.Buffer
	set := templates()[name]
	if block == "live" && set.Lookup("live") == nil {
		block = "main"
	}
	if err := set.ExecuteTemplate(&b, block, data); err != nil {
		s.log.LogAttrs(data.r.Context(), slog.LevelError, "console template failed", slog.String("err", err.Error()))
		http.Error(w, "this page can't be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser has left
}

// staticVersion changes when a static file does.
var staticVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	names, _ := fs.Glob(pageFiles, "page/static/*")
	for _, name := range names {
		content, _ := fs.ReadFile(pageFiles, name)
		_, _ = sum.Write(content) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})

func (s *site) serveStatic(w http.ResponseWriter, v *visit) {
	name := v.r.PathValue("name")
	content, err := fs.ReadFile(pageFiles, "page/static/"+name)
	if err != nil {
		s.refuse(w, v, errNoPage)
		return
	}
	if v.r.FormValue("v") == staticVersion() || path.Ext(name) == ".woff2" { // a font's name says its release
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeContent(w, v.r, name, time.Time{}, bytes.NewReader(content))
}

// saveSettings keeps the language and the theme in cookies, and leads back.
func (s *site) saveSettings(w http.ResponseWriter, v *visit) {
	for name, allowed := range map[string][]string{"lang": languages(), "theme": {"light", "dark", "auto"}} {
		if value := v.r.FormValue(name); slices.Contains(allowed, value) {
			http.SetCookie(w, &http.Cookie{ //nolint:gosec // Not secure where the page is served in plain text, on loopback.
				Name: "duetime_" + name, Value: value, MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode,
				Secure: v.r.TLS != nil,
			})
		}
	}
	lead(w, backOf(v.r.FormValue("back")))
}

// backOf returns a relative address of a view, made of the view's own name; "now" for anything else, such as another site.
func backOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "now"
	}
	for _, at := range places() {
		if u.Path == at.name {
			return strings.TrimSuffix(at.name+"?"+u.RawQuery, "?")
		}
	}
	return "now"
}

// statusOf returns the status that answers an error.
func statusOf(err error) int {
	_, field := errors.AsType[*task.FieldError](err)
	_, conflict := conflictKey(err)
	switch {
	case errors.Is(err, errNotSignedIn):
		return http.StatusUnauthorized
	case errors.Is(err, errManySignIns):
		return http.StatusTooManyRequests
	case errors.Is(err, errForbidden), errors.Is(err, errOtherHost):
		return http.StatusForbidden
	case errors.Is(err, errNoPage), errors.Is(err, task.ErrNotFound), errors.Is(err, task.ErrNoOperation),
		errors.Is(err, task.ErrNoRecurrence), errors.Is(err, task.ErrNoGroup):
		return http.StatusNotFound
	case field, errors.Is(err, errMistake):
		return http.StatusBadRequest
	case conflict:
		return http.StatusConflict
	case errors.Is(err, errAway), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
