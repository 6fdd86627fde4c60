package tracing_test

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/tracing"
)

// TestSamplerFollowsLinks begins spans beside sampled and unsampled ones.
func TestSamplerFollowsLinks(t *testing.T) {
	t.Parallel()
	context := func(flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags})
	}
	for _, c := range []struct {
		title string
		share float64
		link  *trace.Link
		want  int
	}{
		{"none of its own", 0, nil, 0},
		{"all", 1, nil, 1},
		{"linked to a traced call", 0, &trace.Link{SpanContext: context(trace.FlagsSampled)}, 1},
		{"linked to an untraced call", 0, &trace.Link{SpanContext: context(0)}, 0},
	} {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter), sdk.WithSampler(tracing.Sampler(c.share)))
		var options []trace.SpanStartOption
		if c.link != nil {
			options = append(options, trace.WithLinks(*c.link))
		}
		_, span := provider.Tracer("test").Start(t.Context(), "run", options...)
		span.End()
		if got := len(exporter.GetSpans()); got != c.want {
			t.Errorf("%s: %d spans, want %d", c.title, got, c.want)
		}
	}
}

func TestOffIsNothing(t *testing.T) {
	t.Parallel()
	stop, err := tracing.Start(t.Context(), tracing.Config{Process: "event"})
	if stop != nil || err != nil {
		t.Errorf("without an endpoint: %v, want nothing to stop", err)
	}
}
