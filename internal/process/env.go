package process

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/build"
)

// Env is what Main gives to a command's run. Its methods may be called from several goroutines.
type Env struct {
	// Name is the command's name: event, worker, …
	Name string
	// Flags are the parsed command line.
	Flags Flags
	// Registry has the metrics that /metrics shows.
	Registry *prometheus.Registry
	// Namespace is the deployment's namespace. /metrics shows it as a label of our metrics. Set it before ServeAdmin.
	Namespace string

	stderr io.Writer
	adopt  func(logger *slog.Logger)
	log    atomic.Pointer[slog.Logger]
	logSet atomic.Bool
	once   sync.Once

	ready    atomic.Bool
	alive    atomic.Pointer[func() error]
	stopping atomic.Bool
	drain    atomic.Int64 // a time.Duration

	mu   sync.Mutex
	open []*closer
}

// closer is one thing to close, in the order of opening.
type closer struct {
	name string
	fn   func(ctx context.Context) error
}

func newEnv(flags Flags, stderr io.Writer, adopt func(logger *slog.Logger)) *Env {
	e := &Env{Flags: flags, Registry: prometheus.NewRegistry(), stderr: stderr, adopt: adopt}
	e.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.log.Store(slog.New(slog.NewJSONHandler(stderr, nil)))
	return e
}

// Log returns the process's logger: JSON at level info until SetLog is called. The logger is never nil.
func (e *Env) Log() *slog.Logger { return e.log.Load() }

// SetLog makes a new logger with level (debug, info, warn, error) and format (json, text), for the process and as slog's
// default. Its first line says what the process was built from. Call SetLog before anything keeps the logger.
func (e *Env) SetLog(level, format string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("set log level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler
	switch format {
	case "json":
		h = slog.NewJSONHandler(e.stderr, opts)
	case "text":
		h = slog.NewTextHandler(e.stderr, opts)
	default:
		return fmt.Errorf("set log format: %q is neither json nor text", format)
	}
	e.log.Store(slog.New(tracedLog{h}))
	e.logSet.Store(true)
	e.adopt(e.Log())
	e.Log().LogAttrs(context.Background(), slog.LevelInfo, "starting", build.Read().LogAttrs()...)
	return nil
}

// Ready reports, on its first call, that the process does its work now: it logs "ready" at every level, and /readyz
// answers 200 until the process stops.
func (e *Env) Ready() {
	e.once.Do(func() {
		e.ready.Store(true)
		// The handler is called without a level check: scripts wait for this line at level error too.
		_ = e.Log().Handler().Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelInfo, "ready", 0))
	})
}

// SetAlive lets /livez answer 503 while fn returns an error: the orchestrator then starts the process anew. fn must not ask
// a server: starting anew would not bring it back.
func (e *Env) SetAlive(fn func() error) { e.alive.Store(&fn) }

// SetDrain lets a stop take as long as work may go on after it, and closing what is open after that, if this is more than ten
// seconds.
func (e *Env) SetDrain(d time.Duration) { e.drain.Store(int64(d)) }

// drained returns the bound of a step of the stop: the usual one, or a longer one that leaves the same time after the drain.
func (e *Env) drained(usual time.Duration) time.Duration {
	return max(usual, usual-usualDrain+time.Duration(e.drain.Load()))
}

// OnStop registers fn to run when the process stops, after all functions that are registered later. Its context ends
// 9 s after the stop began, or later by SetDrain. An error of fn is logged with the name and changes nothing else.
func (e *Env) OnStop(name string, fn func(ctx context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, &closer{name, fn})
}

// closeAll closes everything that is open, the last opened first, including what is registered meanwhile.
func (e *Env) closeAll(ctx context.Context) {
	for c := e.lastOpen(); c != nil; c = e.lastOpen() {
		if err := c.fn(ctx); err != nil {
			e.Log().LogAttrs(ctx, slog.LevelWarn, "close", slog.String("what", c.name), slog.Any("err", err))
		}
		e.forget(c)
	}
}

func (e *Env) lastOpen() *closer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.open) == 0 {
		return nil
	}
	return e.open[len(e.open)-1]
}

// forget removes a closed closer. Until then openNames shows it, so that an end by force names the closer that hangs.
func (e *Env) forget(closed *closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = slices.DeleteFunc(e.open, func(c *closer) bool { return c == closed })
}

func (e *Env) openNames() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.open))
	for _, c := range slices.Backward(e.open) {
		names = append(names, c.name)
	}
	return cmp.Or(strings.Join(names, ", "), "nothing")
}

// buildInfo is a gauge of value 1 whose labels say which build runs. Dashboards join on it, and show a half-done upgrade.
func buildInfo(name string) prometheus.Collector {
	b := build.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duetime_build_info", Help: "Always 1; the labels say which process this is and what it was built from.",
		ConstLabels: prometheus.Labels{
			"process": name, "version": b.Version, "revision": b.Revision, "goversion": b.Go, "tz": b.TZ,
		},
	}, func() float64 { return 1 })
}

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
