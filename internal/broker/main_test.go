package broker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// byLastByte places keys in these tests.
func byLastByte(key []byte, n int) int { return int(key[len(key)-1]) % n }

// world is a client with one topic and its group.
type world struct {
	*Client
	t     *testing.T
	topic Topic
	group string
	reg   *prometheus.Registry
	sent  int
}

// newWorld makes a client whose topic does not exist.
func newWorld(t *testing.T, addr string, partitions int) *world {
	t.Helper()
	name, reg := pipelinetest.Namespace(t), prometheus.NewRegistry()
	w := &world{
		t: t, reg: reg, group: name + ".group",
		topic: Topic{Name: name + ".topic", Partitions: partitions, Replication: 1, Retention: time.Hour},
	}
	c, err := New(Config{
		Addrs: []string{addr}, SessionTimeout: 6 * time.Second, Heartbeat: 500 * time.Millisecond,
		Topics: []Topic{w.topic}, Partition: byLastByte, MaxValueBytes: 64 << 10,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: reg,
	})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, c.Close()) })
	w.Client = c
	return w
}

// newWorldWithTopic makes a client whose topic exists.
func newWorldWithTopic(t *testing.T, addr string, partitions int) *world {
	t.Helper()
	w := newWorld(t, addr, partitions)
	pipelinetest.Must(t, w.Ensure(t.Context()))
	return w
}

func (w *world) produce(values ...string) []error {
	w.t.Helper()
	messages := make([]Message, len(values))
	for i, v := range values {
		messages[i] = Message{Key: []byte(v), Value: []byte(v)}
	}
	return w.Produce(w.t.Context(), w.topic.Name, messages)
}

// consume consumes until the test ends, commits everything, and passes the records on.
func (w *world) consume() <-chan Record {
	w.t.Helper()
	out := make(chan Record, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- w.Consume(ctx, w.topic, w.group, func(ctx context.Context, s *Session) error {
			for {
				records, err := s.Fetch(ctx, 1000)
				if err != nil {
					return nil //nolint:nilerr // the session is over
				}
				next := map[int]int64{}
				for _, r := range records {
					select {
					case out <- r:
					case <-ctx.Done():
						return nil // nobody reads any more
					}
					next[r.Partition] = r.Offset + 1
				}
				_ = s.Commit(ctx, next) // after a refusal the records come again
			}
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("consume: %v", err)
		}
	})
	return out
}

// eventually produces a message of this key until it is acknowledged, and waits until it is delivered. It returns the
// duration of both.
func (w *world) eventually(in <-chan Record, key string) time.Duration {
	w.t.Helper()
	begun := time.Now()
	w.sent++
	m := Message{Key: []byte(key), Value: fmt.Appendf(nil, "%s, message %d", key, w.sent)}
	pipelinetest.Await(w.t, "an acknowledged message", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		return w.Produce(ctx, w.topic.Name, []Message{m}) == nil
	})
	for {
		select {
		case r := <-in:
			if string(r.Value) == string(m.Value) {
				return time.Since(begun)
			}
		case <-time.After(time.Minute):
			w.t.Fatalf("%s was not delivered within a minute", m.Value)
		}
	}
}

func (w *world) counter(name string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	pipelinetest.Must(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}
