package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/worker"
)

// Whoever reads that a handler was cut off finds the key to set.
func TestEndOfAHandlersTimeNamesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	causes := make(chan error, 1)
	running := make(chan struct{}, 1)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, _ *worker.Tx, _ worker.Task[payload]) error {
		running <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	names := func(what, text, key string) {
		t.Helper()
		if !strings.Contains(text, key) {
			t.Errorf("%s: %q does not name %s", what, text, key)
		}
	}

	made := w.due(meal, 1)[0]
	w.pass(w.worker(mux, engine.Config{HandlerTimeout: 50 * time.Millisecond, BatchTime: 50 * time.Millisecond}), made)
	<-running
	names("cause of a timeout", (<-causes).Error(), "worker.handler_timeout (Config.HandlerTimeout) of 50ms")
	names("error on the row", w.store.Row(made.ID).LastError, "worker.handler_timeout (Config.HandlerTimeout) of 50ms")

	var log strings.Builder
	stop := w.run(w.worker(mux, engine.Config{Drain: 50 * time.Millisecond, HandlerTimeout: limit, Logger: textLogger(&log)}))
	w.publish(w.due(meal, 1)...)
	<-running
	want(t, "stop", stop(), nil)
	names("cause of a drain", (<-causes).Error(), "worker.drain (Config.Drain) of 50ms")
	names("log", log.String(), "worker.drain (Config.Drain) of 50ms")
}

// textLogger writes lines of text, one at a time.
func textLogger(w *strings.Builder) *slog.Logger {
	var mu sync.Mutex
	return slog.New(slog.NewTextHandler(lines(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteString(line)
	}), nil))
}
