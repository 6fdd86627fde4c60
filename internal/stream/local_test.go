package stream_test

import (
	"log/slog"
	"testing"

	"github.com/duetime/duetime/internal/stream"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	conform(t, func(t *testing.T, cfg stream.Config) under {
		l := stream.NewLocal(cfg)
		if err := l.Ensure(t.Context()); err != nil {
			t.Fatalf("ensure: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return under{adapter: l, cfg: cfg, garbage: func(t *testing.T, topic string, value []byte) {
			t.Helper()
			if err := l.Append(topic, value); err != nil {
				t.Fatalf("append: %v", err)
			}
		}}
	})
}

// testLogger writes what the adapters log into the test's own log.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
