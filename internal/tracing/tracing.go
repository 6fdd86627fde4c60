// Package tracing sends a process's spans to an OpenTelemetry collector if the configuration names one. Otherwise it does
// nothing, and OpenTelemetry's default provider makes no spans.
//
// It promises that a slow or absent collector delays neither calls nor the end of the process: spans wait in a bounded
// queue and are dropped when it is full.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	exportTimeout = 5 * time.Second
	closeTimeout  = 2 * time.Second // a stopping process must not wait long for a collector
	logInterval   = time.Minute     // between two lines about a collector that is away
)

// Config says where spans go.
type Config struct {
	Process  string  // event, worker, …
	Endpoint string  // http://host:port or https://host:port of a collector that takes OTLP over HTTP; empty is off
	Sample   float64 // share of the calls that begin a trace, 0 to 1
	Logger   *slog.Logger
}

// Start sets the provider that the whole program uses from here on. stop sends the last spans; it is nil when tracing is
// off. Headers, such as a collector's token, and further attributes of the process come from OpenTelemetry's own
// variables: OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES.
func Start(ctx context.Context, cfg Config) (stop func(context.Context) error, err error) {
	if cfg.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(cfg.Endpoint), otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("trace.endpoint: %w", err)
	}
	own := resource.NewSchemaless(attribute.String("service.name", "duetime-"+cfg.Process))
	described, err := resource.Merge(own, resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(described), sdk.WithSampler(Sampler(cfg.Sample)))
	otel.SetTracerProvider(provider)
	otel.SetErrorHandler(&errorLog{log: cfg.Logger})
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		return provider.Shutdown(ctx)
	}, nil
}

// Sampler samples a share of the calls that begin a trace. It also samples every call of a sampled span, and every span
// that links to a sampled one: a traced call's task is traced to its effect, however long that takes.
func Sampler(share float64) sdk.Sampler {
	return linkSampler{sdk.ParentBased(sdk.TraceIDRatioBased(share))}
}

type linkSampler struct{ parent sdk.Sampler }

// ShouldSample decides when a span begins.
func (l linkSampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdk.SamplingResult{Decision: sdk.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
		}
	}
	return l.parent.ShouldSample(p)
}

// Description names the sampler.
func (l linkSampler) Description() string { return "links, " + l.parent.Description() }

// errorLog logs OpenTelemetry's errors at most once in logInterval: a collector that is away would fill the log.
type errorLog struct {
	log *slog.Logger

	mu     sync.Mutex
	logged time.Time // the last line
}

// Handle is OpenTelemetry's error handler.
func (q *errorLog) Handle(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.logged) < logInterval {
		return
	}
	q.logged = time.Now()
	q.log.Warn("traces are not sent", "err", err)
}
