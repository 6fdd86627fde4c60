package settle

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the links of a span; it is OpenTelemetry's default.
const maxLinks = 128

// traced begins the span of one call of a handler, in a trace of its own: the traces that scheduled its tasks may be
// months old, and the trace that published their hints has many other hints. The span links to all of these traces.
func (s *Settler) traced(ctx context.Context, call []*member) (_ context.Context, end func(error)) {
	ctx, span := s.cfg.Tracer.Start(ctx, "duetime.run", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(call)...))
	if !span.IsRecording() {
		return ctx, func(error) { span.End() }
	}
	first := call[0].row
	span.SetAttributes(attribute.String("duetime.kind", first.Kind), attribute.Int("duetime.tasks", len(call)))
	if len(call) == 1 {
		span.SetAttributes(attribute.String("duetime.task_id", first.ID.String()), attribute.Int("duetime.attempt", first.Attempt))
	}
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// links returns a link to each span that scheduled one of the members' tasks or published one of their hints.
func links(call []*member) []trace.Link {
	var found []trace.Link
	var seen map[string]bool
	for _, m := range call {
		for _, parent := range [...]string{m.row.Traceparent, m.hint.Traceparent} {
			if parent == "" || seen[parent] || len(found) == maxLinks {
				continue
			}
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[parent] = true
			ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
			if c := trace.SpanContextFromContext(ctx); c.IsValid() {
				found = append(found, trace.Link{SpanContext: c})
			}
		}
	}
	return found
}
