package api_test

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	protofiles "github.com/duetime/duetime/proto"
)

// The API describes itself to people and generators, who need no token for that. The page loads nothing from elsewhere, runs no
// script that stands in it, and shows each call.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("reader", api.RoleRead, nil, nil))
	files := map[string]string{}
	for at, contentType := range map[string]string{
		"/docs": "text/html; charset=utf-8", "/docs/page.css": "text/css; charset=utf-8", "/docs/page.js": "text/javascript; charset=utf-8",
		"/openapi.yaml": "application/yaml",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+at, nil)
		pipelinetest.Must(t, err)
		res, err := http.DefaultClient.Do(req)
		pipelinetest.Must(t, err)
		text, err := io.ReadAll(res.Body)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, res.Body.Close())
		files[at] = string(text)
		policy := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != contentType || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: status %d, %v", at, res.StatusCode, res.Header)
		}
		if text := strings.ReplaceAll(files[at], "http://127.0.0.1", ""); at != "/openapi.yaml" && strings.Contains(text, "://") {
			t.Errorf("%s names another host", at)
		}
	}
	if files["/openapi.yaml"] != protofiles.OpenAPI {
		t.Error("/openapi.yaml is another file than proto/openapi.yaml")
	}
	page := files["/docs"]
	for _, inside := range []string{"<style", "style=", "onclick", "<script>"} {
		if strings.Contains(page, inside) {
			t.Errorf("the policy forbids what the page has: %s", inside)
		}
	}
	eachMethod(t, func(at string, m protoreflect.MethodDescriptor) {
		form := fmt.Sprintf(`<form data-path="%s">`, at)
		if !strings.Contains(page, fmt.Sprintf(`<article id="%s">`, path.Base(at))) || strings.Contains(page, form) == m.IsStreamingServer() {
			t.Errorf("the page does not show %s as it should", at)
		}
	})
	for _, shown := range []string{
		`<th scope="row">task.kind <b>required</b></th><td>string</td><td>Required. Letters,`, `<th scope="row">tasks[].dueIn</th><td>duration</td>`,
		`<td>VERB_UNSPECIFIED, VERB_SHIFT,`, `<th scope="row">operation.filter.dueAfter</th><td>moment</td>`, `<td>any JSON</td>`,
	} {
		if !strings.Contains(page, shown) {
			t.Errorf("the page lacks %s", shown)
		}
	}
}
