package stream

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/broker"
)

// traceHeader names the header that carries the publishing call's trace context, as the W3C does. What it says is left to
// whoever traces.
const (
	traceHeader         = "traceparent"
	maxTraceHeaderBytes = 55 // in the only version there is
)

// traceparentOf returns the trace context of a call; empty where nobody traces it.
func traceparentOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(traceHeader)
}

// traceHeaders returns the headers of all messages of one call: none where nobody traces it.
func traceHeaders(ctx context.Context) []broker.Header {
	parent := traceparentOf(ctx)
	if parent == "" {
		return nil
	}
	return []broker.Header{{Key: traceHeader, Value: []byte(parent)}}
}
