package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// plainError is an error as clients read it that were generated from the OpenAPI file.
type plainError struct {
	Code, Message string
	Details       []struct {
		Type  string
		Debug struct {
			Reason, Domain  string
			FieldViolations []struct{ Field, Description string }
		}
	}
}

// do makes a request without a body of a message, and returns status, headers and the error in the answer.
func (w *world) do(t *testing.T, method, at, contentType string) (int, http.Header, plainError) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+at, strings.NewReader("{}"))
	pipelinetest.Must(t, err)
	req.Header.Set("Content-Type", contentType)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	var said plainError
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil {
		t.Errorf("%s %s: %v", method, at, err)
	}
	return res.StatusCode, res.Header, said
}

// A request that is no call is refused by HTTP, with a body as calls have it.
func TestRequestsThatAreNoCallsAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const schedule = "/duetime.v1.TaskService/Schedule"
	for _, k := range []struct {
		method, at, contentType string
		status                  int
		reason, says            string
	}{
		{"POST", "/duetime.v1.TaskService/Schedul", "application/json", 404, "NO_CALL", "/Schedul: did you mean " + schedule + "?"},
		{"POST", "/duetime.v1.TasksService/Schedule", "application/json", 404, "NO_CALL", "did you mean " + schedule + "?"},
		{"POST", "/Schedule", "application/json", 404, "NO_CALL", "did you mean " + schedule + "?"},
		{"POST", "/v1/tasks", "application/connect+json", 404, "NO_CALL", "there is no call /v1/tasks: /docs lists the calls"},
		{"GET", "/", "", 404, "NO_CALL", "/docs lists the calls"},
		{"GET", schedule, "application/json", 405, "HTTP_METHOD", "the HTTP method must be POST, and is GET"},
		{"PUT", schedule, "application/json", 405, "HTTP_METHOD", "must be POST, and is PUT"},
		{"POST", "/docs", "application/json", 405, "HTTP_METHOD", "must be GET, HEAD, and is POST"},
		{"POST", schedule, "application/x-www-form-urlencoded", 415, "CONTENT_TYPE", `must be application/json, and is "application/x-www-form-urlencoded"`},
		{"POST", schedule, "", 415, "CONTENT_TYPE", `must be application/json, and is ""`},
		{"POST", schedule, "application/connect+json", 415, "CONTENT_TYPE", "must be application/json, and is"},
		{"POST", "/duetime.v1.TaskService/Watch", "application/json", 415, "CONTENT_TYPE", "must be application/connect+json, since the call is a stream"},
	} {
		status, header, said := w.do(t, k.method, k.at, k.contentType)
		if status != k.status || said.Code != "unimplemented" || !strings.Contains(said.Message, k.says) || len(said.Details) != 1 ||
			said.Details[0].Debug.Reason != k.reason || said.Details[0].Debug.Domain != "duetime" || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s of %q: status %d, %v, %+v", k.method, k.at, k.contentType, status, header, said)
		}
		if header.Get("Allow") == "" && status == http.StatusMethodNotAllowed || header.Get("Accept-Post") == "" && status == http.StatusUnsupportedMediaType {
			t.Errorf("%s %s: the answer does not say what is taken: %v", k.method, k.at, header)
		}
	}
}

// Clients of gRPC read errors in their own form, whatever is called.
func TestUnknownCallByGRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, options := range map[string][]connect.ClientOption{"grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}} {
		for _, at := range []string{"/duetime.v1.TaskService/Schedul", "/other.v1.Service/Call"} {
			err := sendRaw(t.Context(), overHTTP2(t), w.url+at, false, "{}", options...)
			wantCode(t, err, connect.CodeUnimplemented, "NO_CALL")
			if err == nil || !strings.Contains(err.Error(), "there is no call "+at) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// Who may not call at all is told so in the same form.
func TestStrangersAreExplained(t *testing.T) {
	t.Parallel()
	h := openTo(t, api.Config{}, shop)
	elsewhere := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://duetime.example/duetime.v1.TaskService/List", nil)
	elsewhere.RemoteAddr = "127.0.0.1:4567"
	named := httptest.NewRecorder()
	h.ServeHTTP(named, elsewhere)
	for says, answer := range map[string]*httptest.ResponseRecorder{
		"api.origins does not name the web site": called(t, h, other), "answers this machine only": named,
	} {
		var said plainError
		pipelinetest.Must(t, json.NewDecoder(answer.Body).Decode(&said))
		if answer.Code != http.StatusForbidden || said.Code != "permission_denied" || !strings.Contains(said.Message, says) {
			t.Errorf("status %d, %+v, want %q", answer.Code, said, says)
		}
	}
}
