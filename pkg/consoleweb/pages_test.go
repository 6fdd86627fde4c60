package consoleweb_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// pages are the console's pages on a pipeline of their own.
type pages struct {
	t *testing.T
	p *embedded.Pipeline
	h http.Handler
}

func openPages(t *testing.T, cfg consoleweb.Config) *pages {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	p, err := embedded.OpenMySQL(t.Context(), worldtest.Schema(t), embedded.Config{Queues: []string{"payments"}, Logger: cfg.Logger})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	h, err := consoleweb.Handler(p.Console(), cfg)
	pipelinetest.Must(t, err)
	return &pages{t, p, h}
}

// open lets everybody in.
func open(t *testing.T) *pages {
	t.Helper()
	return openPages(t, consoleweb.Config{Open: "ann@desk"})
}

func (p *pages) exec(query string, args ...any) {
	p.t.Helper()
	_, err := p.p.DB().ExecContext(p.t.Context(), query, args...)
	pipelinetest.Must(p.t, err)
}

func (p *pages) do(r *http.Request) *httptest.ResponseRecorder {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	return w
}

func request(method, at string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, "http://localhost/"+at, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:4567"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// get wants an answer of this status, and returns its body.
func (p *pages) get(status int, at string) string {
	p.t.Helper()
	w := p.do(request(http.MethodGet, at, nil))
	if w.Code != status {
		p.t.Errorf("GET %s: status %d, want %d: %s", at, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// post is get for a form, given as names and values.
func (p *pages) post(status int, at string, pairs ...string) string {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	w := p.do(request(http.MethodPost, at, form))
	if w.Code != status {
		p.t.Errorf("POST %s %v: status %d, want %d: %s", at, pairs, w.Code, status, w.Body)
	}
	return w.Body.String() + w.Header().Get("Location")
}

func (p *pages) schedule(spec task.Spec) task.Task {
	p.t.Helper()
	made, err := p.p.Schedule(p.t.Context(), spec)
	pipelinetest.Must(p.t, err)
	return made
}

// dead schedules tasks that have used up their attempts.
func (p *pages) dead(n int) (ids []task.ID) {
	p.t.Helper()
	for i := range n {
		ids = append(ids, p.schedule(charge.New("ada", Charge{i}, task.In(time.Hour))).ID)
	}
	p.exec(`UPDATE duetime_tasks SET state = 3, version = 2, attempt = 1, last_error = 'bank away', finished_at = updated_at`)
	return ids
}

func (p *pages) task(id task.ID) console.TaskLife {
	p.t.Helper()
	life, err := p.p.Console().Task(p.t.Context(), id)
	pipelinetest.Must(p.t, err)
	return life
}

// element is an element of a page.
type element struct {
	name  string
	attrs map[string]string
	text  string // that stands directly in it
}

// elements parses a page.
func elements(t *testing.T, page string) []element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var all []element
	var inside []int
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in the page %s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[strings.TrimPrefix(a.Name.Space+":"+a.Name.Local, ":")] = a.Value
			}
			inside = append(inside, len(all))
			all = append(all, e)
		case xml.EndElement:
			inside = inside[:max(0, len(inside)-1)]
		case xml.CharData:
			if len(inside) > 0 {
				all[inside[len(inside)-1]].text += string(token)
			}
		}
	}
}

// checkInert wants no code and no style inside of the page, and nothing from elsewhere.
func checkInert(t *testing.T, at, page string) {
	t.Helper()
	for _, e := range elements(t, page) {
		if e.name == "script" && (!strings.HasPrefix(e.attrs["src"], "static/") || strings.TrimSpace(e.text) != "") {
			t.Errorf("%s: the script %+v is not one of ours", at, e)
		}
		if e.name == "style" || e.name == "iframe" || e.name == "object" || e.name == "base" {
			t.Errorf("%s has the element %+v", at, e)
		}
		for name, value := range e.attrs {
			if name == "style" || strings.HasPrefix(name, "on") || strings.HasPrefix(name, "hx-on") {
				t.Errorf("%s: %s has the attribute %s=%q", at, e.name, name, value)
			}
			link := slices.Contains([]string{"href", "src", "action", "hx-get", "hx-post", "formaction"}, name)
			if u, err := url.Parse(value); link && (err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/")) {
				t.Errorf("%s: %s leads to %q, which is not relative", at, e.name, value)
			}
		}
	}
}

// links returns where the page's links and live parts lead.
func links(t *testing.T, page string) (to []string) {
	t.Helper()
	for _, e := range elements(t, page) {
		for _, name := range []string{"href", "src", "hx-get"} {
			if at := e.attrs[name]; at != "" && !strings.HasPrefix(at, "#") {
				to = append(to, at)
			}
		}
	}
	return to
}

// recurs makes a recurrence of ada's.
func (p *pages) recurs() {
	p.t.Helper()
	_, err := p.p.Recur(p.t.Context(), "hourly", recur.Every(time.Hour), charge.Recurring("ada", Charge{1}), recur.Policy{})
	pipelinetest.Must(p.t, err)
}

// filled has something of everything.
func filled(t *testing.T) *pages {
	t.Helper()
	p := open(t)
	p.dead(2)
	for hour := range 3 {
		p.schedule(charge.New("ada", Charge{hour}, task.In(time.Duration(hour)*time.Hour), task.Subject("order 7")))
	}
	p.recurs()
	o := task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Owner: "nobody"}, Matched: 1}
	made, err := p.p.Console().Bulk(t.Context(), o)
	pipelinetest.Must(t, err)
	if made.ID.IsZero() {
		t.Fatal("no operation")
	}
	return p
}

// Every page that can be reached by links answers, in both languages, with nothing inside that the policy forbids.
func TestPageLinksAnswer(t *testing.T) {
	t.Parallel()
	p := filled(t)
	const bound = 400
	queue := []string{"now", "tasks", "owner?owner=ada", "dead", "changes", "system"}
	seen, views, parts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	p.figures("now") // of which some lead to parts of a page
	for len(queue) > 0 && len(seen) < bound {
		at, part, _ := strings.Cut(queue[0], "#")
		parts[queue[0]] = part != ""
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		r := request(http.MethodGet, at, nil)
		if len(seen)%2 == 0 {
			r.AddCookie(&http.Cookie{Name: "duetime_lang", Value: "zh"})
		}
		w := p.do(r)
		if w.Code != http.StatusOK && w.Code != http.StatusConflict { // a change that would change nothing
			t.Errorf("%s: status %d: %s", at, w.Code, w.Body)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		name, _, _ := strings.Cut(at, "?")
		views[name] = true
		checkInert(t, at, w.Body.String())
		for _, to := range links(t, w.Body.String()) {
			if !strings.HasPrefix(to, "tasks?") || len(queue) < 50 { // Now has many
				queue = append(queue, to)
			}
		}
	}
	if !parts["system#processes"] {
		t.Errorf("no link leads to the processes: %v", parts)
	}
	for to, isPart := range parts {
		if at, part, _ := strings.Cut(to, "#"); isPart && !strings.Contains(p.figures(at), `id="`+part+`"`) {
			t.Errorf("a link leads to %s, which is not there", to)
		}
	}
	for _, name := range []string{
		"task", "operation", "change", "now", "tasks", "owner", "dead", "system", "changes", "group",
	} {
		if !views[name] {
			t.Errorf("no link leads to %s: %v", name, views)
		}
	}
}

// Every answer, whatever its status, has the headers that keep others' code out.
func TestPageHeaders(t *testing.T) {
	t.Parallel()
	p := openPages(t, consoleweb.Config{Tokens: []consoleweb.Token{{Name: "bot", Token: longToken, Grant: mayRead}}})
	for at, want := range map[string]int{
		"now": 200, "": 303, "nowhere": 404, "task?id=7": 404, "static/page.css": 200,
		"static/..%2Fpage.go": 404, "static/none": 404, "tasks?after=x": 400, "change?do=task.cancel": 403,
		"now?kind=" + strings.Repeat("k", task.MaxKind+1): 400,
	} {
		for _, signedIn := range []bool{true, false} {
			r := request(http.MethodGet, at, nil)
			if signedIn {
				r.Header.Set("Authorization", "Bearer "+longToken)
			}
			w := p.do(r)
			if signedIn && w.Code != want {
				t.Errorf("%q: status %d, want %d", at, w.Code, want)
			}
			if !signedIn && w.Code != http.StatusUnauthorized {
				t.Errorf("%q without a sign-in: status %d", at, w.Code)
			}
			for name, value := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
					"font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			} {
				if got := w.Header().Get(name); got != value {
					t.Errorf("%q: %s is %q", at, name, got)
				}
			}
		}
	}
}

// Below a prefix all works as at the root.
func TestPageBelowAPrefix(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.h = http.StripPrefix("/ops/tasks", p.h)
	for at, want := range map[string]string{"ops/tasks": "tasks/", "ops/tasks/": "now"} {
		w := p.do(request(http.MethodGet, at, nil))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%s leads to %q with %d, want %q", at, got, w.Code, want)
		}
	}
	for _, to := range links(t, p.get(200, "ops/tasks/now")) {
		at, _, _ := strings.Cut(to, "#") // a browser keeps the rest
		p.get(200, "ops/tasks/"+at)
	}
}

// Whatever names, payloads and errors hold, a page shows it as text.
func TestPageEscapes(t *testing.T) {
	t.Parallel()
	p := open(t)
	hostile := []string{
		`"><script>alert(1)</script>`, `javascript:alert(1)`, `' onmouseover='alert(1)`, "</title></svg><img src=x onerror=alert(1)>",
		"\u202Etxt.exe", "a b&c=d#e%zz", "../../now?x",
	}
	for i, text := range hostile {
		made := p.schedule(charge.New(text, Charge{i}, task.In(time.Hour), task.Subject(text)))
		payload, err := json.Marshal(map[string]string{"note": text + "</pre><script>alert(2)</script>"})
		pipelinetest.Must(t, err)
		p.exec("UPDATE duetime_tasks SET payload = ?, last_error = ?, kind = ? WHERE id = ?",
			string(payload), text+"</pre><script>alert(3)</script>{{.Data}}", text+"{{.Data}}", made.ID[:])
		for _, at := range []string{
			"tasks?owner=" + url.QueryEscape(text), "task?id=" + made.ID.String(), "owner?owner=" + url.QueryEscape(text),
			"change?do=task.cancel&id=" + made.ID.String(), "tasks?after=" + url.QueryEscape(text),
			"changes?actor=" + url.QueryEscape(text), "now?kind=" + url.QueryEscape(text),
			"change?do=queue.pause&queue=" + url.QueryEscape(text),
			"change?do=bulk&verb=cancel&owner=" + url.QueryEscape(text),
		} {
			w := p.do(request(http.MethodGet, at, nil))
			checkInert(t, at, w.Body.String())
			if strings.Contains(w.Body.String(), "\u202E<") {
				t.Errorf("%s turns the direction of writing", at)
			}
		}
		q := "owner:" + text
		if strings.Contains(text, " ") || strings.HasPrefix(text, `"`) {
			q = "owner:" + strconv.Quote(text)
		}
		ofOwner := theLink(t, p.get(200, "tasks?id="+made.ID.String()), "q", q)
		theLink(t, p.get(200, ofOwner), "owner", text)
	}
}

// Times are in the zone that the browser named, with UTC beside them; a zone that is none is UTC.
func TestPageZones(t *testing.T) {
	t.Parallel()
	p := open(t)
	due := time.Date(2031, 7, 1, 12, 0, 0, 0, time.UTC)
	made := p.schedule(charge.New("ada", Charge{1}, task.At(due)))
	for zone, want := range map[string]string{
		"Asia%2FShanghai": "20:00:00", "Europe/Berlin": "14:00:00", "": "12:00:00",
		"..%2F..%2Fetc%2Fpasswd": "12:00:00", "Local": "12:00:00",
	} {
		r := request(http.MethodGet, "task?id="+made.ID.String(), nil)
		r.AddCookie(&http.Cookie{Name: "duetime_zone", Value: zone})
		page := p.do(r).Body.String()
		if !strings.Contains(page, `title="2031-07-01 12:00:00.000 UTC"><span class="day">2031-07-01</span> `+want+"</time>") {
			t.Errorf("zone %q: want %s in %s", zone, want, page)
		}
	}
}

// The line of an owner marks each day once, at its midnight, also where the clock is put back.
func TestPageMarksDays(t *testing.T) {
	t.Parallel()
	p := open(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	pipelinetest.Must(t, err)
	from := time.Date(2025, 10, 23, 0, 0, 0, 0, berlin)
	type mark struct{ x, text string }
	var want []mark
	for day := from.AddDate(0, 0, 1); day.Before(from.Add(7 * 24 * time.Hour)); day = day.AddDate(0, 0, 1) {
		x := float64(day.Sub(from)) / float64(7*24*time.Hour) * 100
		want = append(want, mark{fmt.Sprintf("%.2f%%", x), day.Format("01-02")})
	}
	for _, typed := range []string{"2025-10-23", "2025-10-23T00:00:00.000%2B02:00"} { // the latter as links have it
		r := request(http.MethodGet, "owner?owner=ada&span=7d&from="+typed, nil)
		r.AddCookie(&http.Cookie{Name: "duetime_zone", Value: "Europe/Berlin"})
		var got []mark
		for _, e := range elements(t, p.do(r).Body.String()) {
			if e.name == "text" && e.attrs["class"] == "mark" {
				got = append(got, mark{e.attrs["x"], e.text})
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %s: the marks are %v, want %v", typed, got, want)
		}
	}
}
