package stream_test

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	addr := pipelinetest.Kafka(t).Addr()
	conform(t, func(t *testing.T, cfg stream.Config) under { return openKafka(t, addr, cfg) })
}

// openKafka returns a stream whose topics exist.
func openKafka(t *testing.T, addr string, cfg stream.Config) under {
	t.Helper()
	cfg.Brokers = []string{addr}
	k, err := stream.NewKafka(cfg)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := k.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return under{Kafka: k, cfg: cfg, garbage: func(t *testing.T, topic string, value []byte) {
		t.Helper()
		transport := &kafka.Transport{}
		defer transport.CloseIdleConnections()
		w := &kafka.Writer{
			Addr: kafka.TCP(addr), Topic: topic, Transport: transport,
			RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		}
		defer func() { _ = w.Close() }()
		if err := w.WriteMessages(t.Context(), kafka.Message{Value: value}); err != nil {
			t.Fatalf("write garbage: %v", err)
		}
	}}
}
