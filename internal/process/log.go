package process

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// tracedLog adds trace_id to the lines that are logged within a span, so that a trace leads to its lines and back.
type tracedLog struct{ slog.Handler }

// Handle adds the id.
func (h tracedLog) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps adding it.
func (h tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps adding it.
func (h tracedLog) WithGroup(name string) slog.Handler { return tracedLog{h.Handler.WithGroup(name)} }
