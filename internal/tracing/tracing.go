// Package tracing sends a process's spans to an OpenTelemetry collector, if the configuration names one. Without that it
// does nothing, and the stages' spans are those of OpenTelemetry's default, which are none.
//
// It promises that a collector that is slow or away delays nothing and keeps nobody from stopping: spans wait in a bounded
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
	closeTimeout  = 2 * time.Second // a process that is told to end has better to do than to wait for a collector
	sayEvery      = time.Minute     // between two lines about a collector that is away
)

// Config says where spans go.
type Config struct {
	Process  string  // event, worker, …
	Endpoint string  // http://host:port or https://host:port of a collector that takes OTLP over HTTP; empty is off
	Sample   float64 // share of the calls that begin a trace, 0 to 1
	Logger   *slog.Logger
}

// Start makes the provider that the whole program uses from here on, and gives what sends the last spans at the end; nil
// when tracing is off. Headers, such as a collector's token, and further attributes of the process come from
// OpenTelemetry's own variables: OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES.
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
	otel.SetErrorHandler(&quiet{log: cfg.Logger})
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		return provider.Shutdown(ctx)
	}, nil
}

// Sampler picks a share of the calls that begin a trace, whatever a sampled one calls, and whatever links to one: a traced
// call's task is traced to its effect, however long that takes.
func Sampler(share float64) sdk.Sampler { return linked{sdk.ParentBased(sdk.TraceIDRatioBased(share))} }

type linked struct{ otherwise sdk.Sampler }

// ShouldSample is asked at each span's beginning.
func (l linked) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdk.SamplingResult{Decision: sdk.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
		}
	}
	return l.otherwise.ShouldSample(p)
}

// Description names the sampler.
func (l linked) Description() string { return "links, " + l.otherwise.Description() }

// quiet says now and then what goes wrong; a collector that is away would fill the log.
type quiet struct {
	log *slog.Logger

	mu   sync.Mutex
	said time.Time
}

// Handle is what OpenTelemetry calls.
func (q *quiet) Handle(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.said) < sayEvery {
		return
	}
	q.said = time.Now()
	q.log.Warn("traces are not sent", "err", err)
}
