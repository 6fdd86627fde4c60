package stream

import (
	"context"

	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceKey names the header that carries the publishing call's trace context, as the W3C does.
const traceKey = "traceparent"

const maxTraceparent = 55 // bytes, in the only version there is

// traceparentOf returns the trace context of a call; empty where nobody traces it.
func traceparentOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(traceKey)
}

// traceHeaders returns the headers of all messages of one call: none where nobody traces it.
func traceHeaders(ctx context.Context) []kafka.Header {
	parent := traceparentOf(ctx)
	if parent == "" {
		return nil
	}
	return []kafka.Header{{Key: traceKey, Value: []byte(parent)}}
}

// traceparentIn finds the trace context among a record's headers. What it says is left to whoever traces.
func traceparentIn(headers []kafka.Header) string {
	for _, h := range headers {
		if h.Key == traceKey && len(h.Value) <= maxTraceparent {
			return string(h.Value)
		}
	}
	return ""
}
