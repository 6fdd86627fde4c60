package bench_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// topic is a topic of hints, as many partitions as duetime makes by default.
type topic struct {
	addr, name string
	writer     *kafka.Writer
	made       atomic.Int64 // messages that were written
	fetched    int64
	reader     *kafka.Reader
}

func newTopic(w *world) *topic {
	w.Helper()
	p := &topic{addr: w.deployment.Kafka, name: "bench"}
	conn, err := kafka.DialContext(w.Context(), "tcp", p.addr)
	pipelinetest.Must(w, err)
	defer func() { _ = conn.Close() }()
	controller, err := conn.Controller()
	pipelinetest.Must(w, err)
	admin, err := kafka.DialContext(w.Context(), "tcp", net.JoinHostPort(controller.Host, strconv.Itoa(controller.Port)))
	pipelinetest.Must(w, err)
	defer func() { _ = admin.Close() }()
	pipelinetest.Must(w, admin.CreateTopics(kafka.TopicConfig{Topic: p.name, NumPartitions: 24, ReplicationFactor: 1}))
	p.writer = &kafka.Writer{
		Addr: kafka.TCP(p.addr), Topic: p.name, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll,
		BatchSize: 1000, BatchTimeout: time.Millisecond,
	}
	p.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{p.addr}, Topic: p.name, GroupID: "bench", StartOffset: kafka.FirstOffset, MinBytes: 1, MaxBytes: 1 << 20,
		MaxWait: 200 * time.Millisecond, QueueCapacity: 1000, JoinGroupBackoff: 200 * time.Millisecond,
		HeartbeatInterval: 500 * time.Millisecond, CommitInterval: 100 * time.Millisecond,
	})
	w.Cleanup(func() { _, _ = p.writer.Close(), p.reader.Close() })
	return p
}

// produce writes 100 hints and waits until they are acknowledged.
func (p *topic) produce(ctx context.Context, caller int) (int, error) {
	messages := make([]kafka.Message, 100)
	for i := range messages {
		owner := fmt.Sprint(caller*100 + i)
		messages[i] = kafka.Message{Key: []byte(owner), Value: fmt.Appendf(nil,
			`{"id":"%s","kind":"pet.meal","owner":"%s","run_at":%d,"version":1}`, task.NewID(), owner, time.Now().UnixMilli())}
	}
	err := p.writer.WriteMessages(ctx, messages...)
	if err == nil {
		p.made.Add(int64(len(messages)))
	}
	return len(messages), err
}

// fetch reads what was written, for so long at most, and commits as it goes. It gives how many a second from the first
// message on: joining the group is no part of it.
func (p *topic) fetch(w *world, long time.Duration) float64 {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	var began time.Time
	n := 0
	for p.fetched < p.made.Load() && (n == 0 || time.Since(began) < long) {
		m, err := p.reader.FetchMessage(ctx)
		pipelinetest.Must(w, err)
		if n == 0 {
			began = time.Now()
		}
		n++
		p.fetched++
		if n%500 == 0 {
			pipelinetest.Must(w, p.reader.CommitMessages(ctx, m))
		}
	}
	if n < 2 {
		return 0
	}
	return float64(n-1) / time.Since(began).Seconds()
}
