package process

import (
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
)

// Env is what Main gives to a command's run. Its methods may be called from several goroutines.
type Env struct {
	// Name is the command's: event, worker, …
	Name string
	// Flags are the parsed command line.
	Flags Flags
	// Registry is what /metrics shows.
	Registry *prometheus.Registry
	// Namespace is the deployment's, which /metrics shows as a label of our metrics. Set it before ServeAdmin.
	Namespace string

	stderr io.Writer
	adopt  func(logger *slog.Logger)
	log    atomic.Pointer[slog.Logger]
	logSet atomic.Bool
	once   sync.Once

	ready    atomic.Bool
	stopping atomic.Bool

	mu   sync.Mutex
	open []*closer
}

// closer is one thing to close, in the order of opening.
type closer struct {
	name string
	fn   func(ctx context.Context) error
}

func newEnv(flags Flags, stderr io.Writer, adopt func(logger *slog.Logger)) *Env {
	e := &Env{Flags: flags, Registry: newRegistry(), stderr: stderr, adopt: adopt}
	e.log.Store(slog.New(slog.NewJSONHandler(stderr, nil)))
	return e
}

// Log returns the process's logger: JSON at level info until SetLog was called. It is never nil.
func (e *Env) Log() *slog.Logger { return e.log.Load() }

// SetLog makes the logger anew with level (debug, info, warn, error) and format (json, text), and makes it the one
// that other packages' log lines go through. Call it before anything keeps the logger.
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
	e.log.Store(slog.New(h))
	e.logSet.Store(true)
	e.adopt(e.Log())
	return nil
}

// Ready says, on its first call, that the process does its work now: one log line "ready", written at every level,
// and 200 from /readyz until the process stops.
func (e *Env) Ready() {
	e.once.Do(func() {
		e.ready.Store(true)
		// Past the level check, since whoever waits for this line waits for it at level error too.
		_ = e.Log().Handler().Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelInfo, "ready", 0))
	})
}

// OnStop registers fn to run when the process stops, after everything that is registered later. Its context ends 9 s
// after the stop began. An error is logged with the name and changes nothing else.
func (e *Env) OnStop(name string, fn func(ctx context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, &closer{name, fn})
}

// closeAll closes what is open, the last opened first. What is registered meanwhile is closed too.
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

// forget takes out what was closed; until then openNames shows it, so that an end by force names what hung.
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
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
