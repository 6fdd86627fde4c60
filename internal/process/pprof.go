package process

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/http/pprof" // also registers with the default mux, which no server of ours serves
	"strings"
)

// profiles serves /debug/pprof/ to requests with the token, and answers 401 to all others.
func profiles(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hasToken(r, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, "the token is missing or wrong")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// hasToken reports whether the request has the token. It compares sums of one length, so that its time depends neither on
// how much of the token is right nor on its length.
func hasToken(r *http.Request, token string) bool {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
