package schedule

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/pkg/task"
)

// tracerName is the package that makes the spans.
const tracerName = "github.com/duetime/duetime/pkg/schedule"

// startSpan begins the span of a call that schedules, and gives the specs with its trace context, which their rows keep: the
// span of their effect, perhaps months later, links to it. Where nobody traces, nothing is kept.
func startSpan(ctx context.Context, tracer trace.Tracer, specs []task.Spec) (_ context.Context, _ []task.Spec, end func(error)) {
	end = func(error) {}
	if tracer != nil {
		var span trace.Span
		ctx, span = tracer.Start(ctx, "duetime.schedule", trace.WithSpanKind(trace.SpanKindClient))
		end = func(err error) { endSpan(span, err) }
		if span.IsRecording() {
			span.SetAttributes(attribute.Int("duetime.tasks", len(specs)))
			if len(specs) == 1 {
				span.SetAttributes(attribute.String("duetime.task_id", specs[0].ID().String()))
			}
		}
	}
	parent := traceparent(ctx)
	if parent == "" {
		return ctx, specs, end
	}
	specs = slices.Clone(specs)
	for i := range specs {
		specs[i] = specs[i].Traced(parent)
	}
	return ctx, specs, end
}

func endSpan(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// traceparent returns the W3C form of the call's trace context; empty where nobody traces it.
func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}
