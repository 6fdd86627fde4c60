package process

import (
	"io"
	"net/http"
	"testing"
)

// ask gets a path with this Authorization header; an empty text sends none.
func ask(t *testing.T, url, authorization string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

var profilePaths = []string{"", "heap", "goroutine?debug=2", "cmdline", "profile?seconds=1", "symbol", "trace?seconds=1", "allocs", "mutex"}

func TestProfilesNeedTheToken(t *testing.T) {
	t.Parallel()
	const token = "a token of sixteen or more"
	env := newEnv(Flags{}, io.Discard, nil)
	base := "http://" + hold(t, env.adminHandler(token)).String()
	for _, path := range profilePaths {
		for _, shown := range []string{
			"", "Bearer", "Bearer ", "Bearer wrong", token, "Basic " + token, "Bearer " + token[:len(token)-1], "Bearer  " + token,
			"Bearer " + token + "x",
		} {
			if code, body := ask(t, base+"/debug/pprof/"+path, shown); code != http.StatusUnauthorized || len(body) > 100 {
				t.Errorf("%s with %q: %d, %d bytes, want 401", path, shown, code, len(body))
			}
		}
		if code, body := ask(t, base+"/debug/pprof/"+path, "Bearer "+token); code != http.StatusOK || body == "" {
			t.Errorf("%s with the token: %d, %d bytes", path, code, len(body))
		}
	}
	for _, path := range []string{"/livez", "/metrics"} {
		if code, _ := ask(t, base+path, ""); code != http.StatusOK {
			t.Errorf("%s without the token: %d", path, code)
		}
	}
}

func TestProfilesAreOffWithoutAToken(t *testing.T) {
	t.Parallel()
	env := newEnv(Flags{}, io.Discard, nil)
	base := "http://" + hold(t, env.adminHandler("")).String()
	for _, path := range profilePaths {
		for _, shown := range []string{"", "Bearer ", "Bearer"} {
			if code, _ := ask(t, base+"/debug/pprof/"+path, shown); code != http.StatusNotFound {
				t.Errorf("%s with %q: %d, want 404", path, shown, code)
			}
		}
	}
}
