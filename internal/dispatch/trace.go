package dispatch

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the package that makes the spans.
const tracerName = "github.com/duetime/duetime/internal/dispatch"

// traced begins the span of one call. The hints carry the span's context. failed is the number of hints that Kafka did
// not take.
func (s *shard) traced(ctx context.Context, entries int) (_ context.Context, end func(failed int)) {
	ctx, span := s.d.tracer.Start(ctx, "duetime.publish", trace.WithSpanKind(trace.SpanKindProducer))
	if !span.IsRecording() {
		return ctx, func(int) { span.End() }
	}
	span.SetAttributes(attribute.Int("duetime.shard", s.number), attribute.Int64("duetime.epoch", s.epoch), attribute.Int("duetime.tasks", entries))
	return ctx, func(failed int) {
		if failed > 0 {
			span.SetStatus(codes.Error, fmt.Sprintf("%d hints refused", failed))
		}
		span.End()
	}
}
