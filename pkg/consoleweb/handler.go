package consoleweb

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

//go:embed page/*.html page/static
var pageFiles embed.FS

// Config says who may see and do what on the console's page. Of Users, Tokens, Proxies and Open at least one must be set.
type Config struct {
	Users   []User  // people, who sign in by name and password (basic auth)
	Tokens  []Token // programs, which sign in by a bearer token
	Proxies []Proxy // servers in front of the page, which sign people in
	// Open is the actor of everybody, without a sign-in and with all verbs, for a server that listens on loopback. It can't be set
	// beside the other three. Requests of other machines, and by another name than one of loopback, are refused: a web site could lead its name here.
	Open         string
	HidePayloads bool         // from the role read
	Logger       *slog.Logger // default slog.Default()
}

const (
	maxForm     = 64 << 10        // bytes of a request's body
	viewTimeout = 5 * time.Second // of the statements of one view
	// previewTimeout bounds the count before a mass change, which reads an index entry of each task that matches.
	previewTimeout = 20 * time.Second
	changeTimeout  = 25 * time.Second // of a change; a request to resign waits for 20 s
)

// Handler serves the console as web pages. All addresses in them are relative, so it can stand below any prefix, by
// http.StripPrefix; the prefix must end in a slash in the browser. It needs no other host, and shows without JavaScript what it
// shows with it. Each change bears its user's name in the history: name@console, or the name that a proxy gave if it has an @.
func Handler(c *console.Console, cfg Config) (http.Handler, error) {
	s, err := newSite(c, cfg)
	if err != nil {
		return nil, err
	}
	return s.handler(), nil
}

func newSite(c *console.Console, cfg Config) (*site, error) {
	access, err := newAccess(cfg)
	if err != nil {
		return nil, err
	}
	return &site{
		c: c, cfg: cfg, access: access, log: cmp.Or(cfg.Logger, slog.Default()),
		readings: newReadings(), walks: make(chan struct{}, 1),
	}, nil
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.visited(s.goHome))
	mux.Handle("GET /static/{name}", s.visited(s.serveStatic))
	for _, at := range places() {
		mux.Handle("GET /"+at.name, s.visited(func(w http.ResponseWriter, v *visit) { s.show(w, v, at) }))
	}
	for old, name := range moved() {
		mux.Handle("GET /"+old, s.visited(func(w http.ResponseWriter, v *visit) {
			lead(w, strings.TrimSuffix(name+"?"+v.r.URL.RawQuery, "?"))
		}))
	}
	mux.Handle("GET /jump", s.visited(s.jump))
	mux.Handle("GET /change", s.visited(s.askChange))
	mux.Handle("POST /change", s.visited(s.doChange))
	mux.Handle("POST /settings", s.visited(s.saveSettings))
	mux.Handle("/", s.visited(func(w http.ResponseWriter, v *visit) { s.refuse(w, v, errNoPage) }))
	return secured(http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(rooted(mux), maxForm)))
}

var errNoPage = errors.New("there is no such page")

// site serves the pages.
type site struct {
	c        *console.Console
	cfg      Config
	access   *access
	log      *slog.Logger
	readings *readings
	dead     atomic.Pointer[deadCount]
	walks    chan struct{} // holds one value while somebody reads rows of all owners
}

// contentPolicy allows what the page needs, and no code or style inside of a page.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured sets what browsers must know before they read any answer.
func secured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer a browser sends Origin: null, by which CrossOriginProtection refuses the page's own forms on plain http.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// rooted leads a request of the prefix without its slash to the one with it.
func rooted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" {
			asked, _, _ := strings.Cut(r.RequestURI, "?")
			lead(w, path.Base(asked)+"/")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// lead sends the browser to a relative address. http.Redirect would make it absolute, without the prefix.
func lead(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

func (s *site) goHome(w http.ResponseWriter, _ *visit) { lead(w, "now") }

// visited finds out who asks, and lets in who may read.
func (s *site) visited(h func(w http.ResponseWriter, v *visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.access.identify(r)
		v := s.visit(r, who)
		switch {
		case err != nil:
			s.refuse(w, v, err)
		case who.grant.Role == roleNone:
			s.refuse(w, v, errForbidden)
		default:
			h(w, v)
		}
	})
}

// show reads a view and writes it.
func (s *site) show(w http.ResponseWriter, v *visit, at place) {
	data, err := s.read(v, at)
	if err != nil && (data == nil || v.r.FormValue("part") == "live") { // a part that is read again has no place for a mistake
		s.refuse(w, v, err)
		return
	}
	out := view{visit: v, Name: at.name, Data: data}
	status := http.StatusOK
	if err != nil { // a form with a mistake in it is shown together with the mistake
		out.Mistake, status = v.Explain(err), statusOf(err)
	}
	s.render(w, status, at.name, v.r.FormValue("part"), out)
}

// oneAtATime waits until no other request reads rows of all owners: many would make each other slow, and tasks late. Call what it
// returns after the reading. An owner's list waits for none: it reads the owner's rows by an index.
func (s *site) oneAtATime(ctx context.Context) (done func(), err error) {
	select {
	case s.walks <- struct{}{}:
		return func() { <-s.walks }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refuse writes why there is no answer.
func (s *site) refuse(w http.ResponseWriter, v *visit, err error) {
	err = s.blame(v.r.Context(), err)
	status := statusOf(err)
	switch status {
	case http.StatusUnauthorized:
		s.access.challenge(w.Header())
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(retrySignIn.Seconds())))
	}
	if status == http.StatusInternalServerError && v.r.Context().Err() == nil {
		s.log.LogAttrs(v.r.Context(), slog.LevelError, "console page failed",
			slog.String("path", v.r.URL.Path), slog.String("err", err.Error()))
	}
	s.render(w, status, "refused", fragment(v.r), view{visit: v, Name: "refused", Data: status, Mistake: v.Explain(err)})
}

// fragment is the part of a page that a script asked for, to put it into the dialog; empty for a whole page.
func fragment(r *http.Request) string {
	if r.Header.Get("HX-Target") == "dialog-body" {
		return "main"
	}
	return r.FormValue("part")
}
