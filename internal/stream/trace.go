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

// traceHeaders returns the headers of all messages of one call: none without a trace.
func traceHeaders(ctx context.Context) []broker.Header {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return []broker.Header{{Key: traceHeader, Value: []byte(carrier.Get(traceHeader))}}
}
