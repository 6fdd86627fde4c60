package main_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// The tool serves the pages on the servers of its configuration until a signal, to those who sign in.
func TestConsoleServes(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ada", time.Hour)
	env := append(slices.Clone(d.env), "DUETIME_CONSOLE__USERS=ann:read:correct-horse-battery", "DUETIME_LOG__FORMAT=json")
	p := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/duetime"), env, "console", "--listen", "127.0.0.1:0")
	_, at, _ := strings.Cut(p.WaitLine(t, "the console is at "), "the console is at ")
	at, _, _ = strings.Cut(at, " ")
	for path, want := range map[string]string{
		"system": "default", "tasks?owner=ada": made.ID.String(), "task?id=" + made.ID.String(): "test.remind",
	} {
		for _, password := range []string{"correct-horse-battery", "wrong"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, http.NoBody)
			pipelinetest.Must(t, err)
			r.SetBasicAuth("ann", password)
			res, err := http.DefaultClient.Do(r)
			pipelinetest.Must(t, err)
			body, err := io.ReadAll(res.Body)
			pipelinetest.Must(t, err)
			pipelinetest.Must(t, res.Body.Close())
			right := res.StatusCode == http.StatusOK && strings.Contains(string(body), want)
			if password == "wrong" {
				right = res.StatusCode == http.StatusUnauthorized
			}
			if !right {
				t.Errorf("%s with the password %s: status %d: %s", path, password, res.StatusCode, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	d.wantCode(t, 0, "healthcheck", "--admin", strings.Trim(strings.TrimPrefix(at, "http://"), "/")) // which does not sign in
	pipelinetest.Must(t, p.Term())
	if code := p.Wait(t, 30*time.Second); code != 0 {
		t.Errorf("exit code %d: %v", code, p.Lines())
	}
	if first := p.Lines()[0]; !strings.Contains(first, `"msg":"starting","version":`) {
		t.Errorf("the first line does not say the build: %s", first)
	}
}
