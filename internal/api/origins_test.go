package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
)

const (
	shop  = "https://shop.example"
	other = "https://other.example"
)

// openTo makes an API that scripts of the origins may call.
func openTo(t *testing.T, cfg api.Config, origins ...string) http.Handler {
	t.Helper()
	cfg.Origins = origins
	p := open(t, worldtest.Schema(t))
	served, err := api.New(cfg, p.Client, p.Console())
	pipelinetest.Must(t, err)
	return served
}

// sent returns the answer to a request that a browser makes for a script of the origin.
func sent(t *testing.T, h http.Handler, method, origin string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8091/duetime.v1.TaskService/List", strings.NewReader(`{"limit":1}`))
	r.RemoteAddr = "127.0.0.1:4567"
	r.Header.Set("Origin", origin)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func preflight(t *testing.T, h http.Handler, origin string) *httptest.ResponseRecorder {
	t.Helper()
	return sent(t, h, http.MethodOptions, origin,
		"Access-Control-Request-Method", http.MethodPost, "Access-Control-Request-Headers", "authorization,content-type,grpc-timeout,x-grpc-web")
}

func called(t *testing.T, h http.Handler, origin string) *httptest.ResponseRecorder {
	t.Helper()
	return sent(t, h, http.MethodPost, origin, "Content-Type", "application/json", "Authorization", "Bearer "+tokenOf("page"))
}

func wantShared(t *testing.T, what string, res *httptest.ResponseRecorder, status int, origin string) {
	t.Helper()
	if got := res.Header().Get("Access-Control-Allow-Origin"); res.Code != status || got != origin {
		t.Errorf("%s: status %d for the origin %q, want %d for %q: %s", what, res.Code, got, status, origin, res.Body)
	}
}

// With tokens, a browser learns which sites may call and read; the API refuses no call by its origin alone.
func TestOriginsWithTokens(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	page := api.Config{Tokens: []api.Token{callerOf("page", api.RoleRead, nil, nil)}, Metrics: reg}
	h := openTo(t, page, shop)
	asked := preflight(t, h, shop)
	wantShared(t, "preflight", asked, http.StatusNoContent, shop)
	if got := asked.Header().Get("Access-Control-Allow-Headers"); got != "authorization,content-type,grpc-timeout,x-grpc-web" {
		t.Errorf("headers %q are allowed", got)
	}
	if got := asked.Header().Get("Access-Control-Max-Age"); got != "7200" {
		t.Errorf("is kept for %q s", got)
	}
	wantShared(t, "preflight of another", preflight(t, h, other), http.StatusNoContent, "")
	if calls := worldtest.Samples(t, reg, "duetime_api_requests_total"); len(calls) > 0 {
		t.Errorf("preflights are counted as calls: %v", calls)
	}
	page.Metrics = nil
	answer := called(t, h, shop)
	wantShared(t, "call", answer, http.StatusOK, shop)
	if got := answer.Header().Get("Access-Control-Expose-Headers"); !strings.Contains(got, "Grpc-Status-Details-Bin") {
		t.Errorf("scripts may read the headers %q", got)
	}
	if answer.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Error("cookies are asked for")
	}
	wantShared(t, "call of another", called(t, h, other), http.StatusOK, "")
	wantShared(t, "call of any", called(t, openTo(t, page, "*"), other), http.StatusOK, "*")
	wantShared(t, "call of any, where none may", called(t, openTo(t, page), other), http.StatusOK, "")
}

// Without tokens, calls of other sites are refused, and those of all sites can't be let in.
func TestOriginsWithoutTokens(t *testing.T) {
	t.Parallel()
	h := openTo(t, api.Config{}, shop)
	wantShared(t, "preflight", preflight(t, h, shop), http.StatusNoContent, shop)
	wantShared(t, "call", called(t, h, shop), http.StatusOK, shop)
	wantShared(t, "call of another", called(t, h, other), http.StatusForbidden, "")
	for _, origin := range []string{"*", "shop"} {
		if _, err := api.New(api.Config{Origins: []string{origin}}, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "origins: ") {
			t.Errorf("%s: %v", origin, err)
		}
	}
}
