package stream

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/broker"
)

const (
	traceHeader         = "traceparent" // the W3C's name of the header
	maxTraceHeaderBytes = 55            // in the only version of the format
)

// traceparentOf returns the trace context of a call; empty without a trace.
func traceparentOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(traceHeader)
}

// traceHeaders returns the headers of all messages of one call: none without a trace.
func traceHeaders(ctx context.Context) []broker.Header {
	parent := traceparentOf(ctx)
	if parent == "" {
		return nil
	}
	return []broker.Header{{Key: traceHeader, Value: []byte(parent)}}
}
