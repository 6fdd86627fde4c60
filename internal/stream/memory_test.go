package stream_test

import (
	"log/slog"
	"testing"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
)

func TestInMemory(t *testing.T) {
	t.Parallel()
	conform(t, func(t *testing.T, cfg stream.Config) under {
		var brokers *streamtest.Broker
		k, err := stream.New(cfg, func(cfg broker.Config) (stream.Broker, error) {
			brokers = streamtest.Open(cfg)
			return brokers, nil
		})
		pipelinetest.Must(t, err)
		if err := k.Ensure(t.Context()); err != nil {
			t.Fatalf("ensure: %v", err)
		}
		t.Cleanup(func() { _ = k.Close() })
		return under{Kafka: k, cfg: cfg, garbage: func(t *testing.T, topic string, value []byte) {
			t.Helper()
			if err := brokers.Produce(t.Context(), topic, []broker.Message{{Value: value}})[0]; err != nil {
				t.Fatalf("append: %v", err)
			}
		}}
	})
}

// testLogger writes what the streams log into the test's own log.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
