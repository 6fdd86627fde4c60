package e2e_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// received are the spans that a collector got, by the service that sent them.
type received struct {
	mu    sync.Mutex
	spans map[string][]*traces.Span
	errs  []error
}

func (r *received) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.take(req); err != nil {
		r.errs = append(r.errs, err)
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (r *received) take(req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err == nil && req.Header.Get("Content-Encoding") == "gzip" {
		var unzipped *gzip.Reader
		if unzipped, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(unzipped)
		}
	}
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	for _, from := range sent.GetResourceSpans() {
		service := ""
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range from.GetScopeSpans() {
			r.spans[service] = append(r.spans[service], scope.GetSpans()...)
		}
	}
	return err
}

// find returns a span of the service that the condition holds for; nil while there is none.
func (r *received) find(service, name string, is func(*traces.Span) bool) *traces.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.spans[service], func(s *traces.Span) bool { return s.GetName() == name && is(s) })
	if i < 0 {
		return nil
	}
	return r.spans[service][i]
}

// TestProcessesSendTheirTraces plays a meal and follows it through what a collector gets of each process. The workers'
// own share is none: they trace what a traced call has scheduled.
func TestProcessesSendTheirTraces(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	got := &received{spans: map[string][]*traces.Span{}}
	collector := httptest.NewServer(got)
	defer collector.Close()
	p := pipelinetest.SharedDeployment(t)
	env := []string{"DUETIME_TRACE__ENDPOINT=" + collector.URL, "DUETIME_GAME__MEAL=300ms"}
	event := p.Ready(t, "event", env...)
	worker := p.Ready(t, "worker", append(env, "DUETIME_TRACE__SAMPLE=0")...)
	game := p.Ready(t, "game", env...)
	play(t, game.URL(t, "game"), "ann")

	every := func(*traces.Span) bool { return true }
	var scheduling, run *traces.Span
	pipelinetest.Await(t, "the spans", func() bool {
		scheduling = got.find("duetime-game", "duetime.schedule", every)
		run = got.find("duetime-worker", "duetime.run", every)
		return scheduling != nil && run != nil && got.find("duetime-event", "duetime.publish", every) != nil
	})
	if !slices.ContainsFunc(run.GetLinks(), func(l *traces.Span_Link) bool { return bytes.Equal(l.GetSpanId(), scheduling.GetSpanId()) }) {
		t.Errorf("the run leads to %v, want the scheduling %x", run.GetLinks(), scheduling.GetSpanId())
	}
	for _, err := range got.errs {
		t.Error(err)
	}

	collector.Close() // and nobody minds
	play(t, game.URL(t, "game"), "bob")
	pipelinetest.Await(t, "the second meal", func() bool {
		return worker.Metric(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="done"}`) == 2
	})
	for _, app := range []pipelinetest.App{game, worker, event} {
		app.Stop(t)
	}
}
