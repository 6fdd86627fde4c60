package pet

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy allows what the page needs, and no code or style inside of it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(pageFiles, "page/game.html"))
})

// Page serves the game as a web page: / and files below /page/. It plays through the API beside it. A task's id links to the
// console at the given address; without one it is text.
func Page(console string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		if err := pageTemplate().Execute(&b, struct{ Console string }{console}); err != nil {
			http.Error(w, "the page can't be shown", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // the browser has left
	})
	mux.HandleFunc("GET /page/{name}", func(w http.ResponseWriter, r *http.Request) {
		content, err := fs.ReadFile(pageFiles, "page/"+r.PathValue("name"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, r.PathValue("name"), time.Time{}, bytes.NewReader(content))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

// Site is the game's API, and the page beside it.
func Site(api http.Handler, console string) http.Handler {
	page := Page(console)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if read && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/page/")) {
			page.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
