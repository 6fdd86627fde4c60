package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/near"
)

// explained gives the refusals of HTTP itself the body of an error: net/http and connect answer them with a status alone, which
// generated clients can't read.
func explained(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&explainer{ResponseWriter: w, request: r}, r)
	})
}

// explainer is an answer of which the statuses of explain get a body of ours.
type explainer struct {
	http.ResponseWriter

	request *http.Request
	written bool // by us: what the handler writes is left out
}

// WriteHeader begins the answer.
func (e *explainer) WriteHeader(status int) {
	err := explain(e.request, status, e.Header())
	if err == nil {
		e.ResponseWriter.WriteHeader(status)
		return
	}
	e.written = true
	refuse(e.ResponseWriter, e.request, status, err)
}

// Write writes what belongs to the handler's own answer.
func (e *explainer) Write(text []byte) (int, error) {
	if e.written {
		return len(text), nil
	}
	return e.ResponseWriter.Write(text)
}

// Flush sends what was written: connect wants it of streams.
func (e *explainer) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() }

// Unwrap returns the answer that lies below.
func (e *explainer) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// explain says why HTTP refuses a request; nil for an answer with a body of its own, such as 404 for a task that is not there.
func explain(r *http.Request, status int, header http.Header) *connect.Error {
	if header.Get("Content-Type") == jsonType {
		return nil
	}
	switch status {
	case http.StatusNotFound:
		return refused(reasonNoCall, noCall(r.URL.Path))
	case http.StatusMethodNotAllowed:
		problem := fmt.Sprintf("the HTTP method must be %s, and is %s", header.Get("Allow"), cut(r.Method))
		return refused(reasonHTTPMethod, problem)
	case http.StatusUnsupportedMediaType:
		taken := header.Get("Accept-Post")
		wanted, why := jsonType, ""
		if !slices.Contains(strings.Split(taken, ", "), wanted) {
			wanted, why = "application/connect+json", ", since the call is a stream"
		}
		return refused(reasonContentType, fmt.Sprintf("the Content-Type must be %s%s, and is %q; these are taken too: %s",
			wanted, why, cut(r.Header.Get("Content-Type")), taken))
	}
	return nil
}

func refused(reason, problem string) *connect.Error {
	return reasoned(connect.CodeUnimplemented, fmt.Errorf("%s", problem), reason, nil)
}

// noCall names the call that a path is near, or all of them.
func noCall(asked string) string {
	isOthers := func(call string) bool { return !strings.HasPrefix(call, "/duetime.") }
	calls := slices.DeleteFunc(slices.Sorted(maps.Keys(roles)), isOthers)
	problem := "there is no call " + cut(asked)
	if meant := cmp.Or(near.Of(asked, calls), sameMethod(path.Base(asked), calls)); meant != "" {
		return problem + ": did you mean " + meant + "?"
	}
	return problem + ": /docs lists the calls"
}

// sameMethod finds the call of this name, whatever its service is.
func sameMethod(name string, calls []string) string {
	for _, call := range calls {
		if path.Base(call) == name {
			return call
		}
	}
	return ""
}

// refuse answers a request with an error: gRPC's clients read it in their protocol's form, and all others as JSON, with a status of
// HTTP.
func refuse(w http.ResponseWriter, r *http.Request, status int, err *connect.Error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") { // whose form has no status
		r = r.Clone(r.Context())
		r.Header.Del("Content-Type")
	}
	_ = connect.NewErrorWriter().Write(withStatus{w, status}, r, err) // the caller has gone
}

// withStatus replaces the status of an error. That of gRPC is 200: its error comes behind it.
type withStatus struct {
	http.ResponseWriter

	status int
}

// WriteHeader begins the answer.
func (w withStatus) WriteHeader(status int) {
	if status != http.StatusOK {
		status = w.status
	}
	w.ResponseWriter.WriteHeader(status)
}
