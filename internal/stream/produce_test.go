package stream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/pipelinetest"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/pkg/task"
)

// A message that its topic refuses takes nothing else with it.
func TestRefusalConcernsItsTopicAlone(t *testing.T) {
	t.Parallel()
	addr, namespace := pipelinetest.Kafka(t).Addr(), pipelinetest.Namespace(t)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: namespace + ".q.narrow", NumPartitions: 4, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: "10"}},
	}}})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, res.Errors[namespace+".q.narrow"])
	u := openKafka(t, addr, stream.Config{Namespace: namespace, Queues: []string{"default", "narrow"}, Partitions: 4, Logger: testLogger(t)})
	narrow := entry("a", 1)
	narrow.Queue = "narrow"
	both := u.Publish(t.Context(), []task.Entry{entry("a", 2), narrow}, 1)
	if len(both) != 2 || both[0] != nil || !errors.Is(both[1], kafka.MessageSizeTooLarge) {
		t.Errorf("publish to both: %v, want only the second refused", both)
	}
}

// What is too much for one batch, or one request, goes in several.
func TestManyAndLargeMessages(t *testing.T) {
	t.Parallel()
	u := openKafka(t, pipelinetest.Kafka(t).Addr(), stream.Config{Namespace: pipelinetest.Namespace(t), Partitions: 2, Logger: testLogger(t)})
	in := endless(t, u)
	entries := make([]task.Entry, 12_000)
	for i := range entries {
		entries[i] = entry(fmt.Sprintf("%d-%s", i, strings.Repeat("o", 40)), i)
	}
	publish(t, u, entries...)
	missing := map[task.ID]bool{}
	for _, e := range entries {
		missing[e.ID] = true
	}
	for len(missing) > 0 {
		select {
		case d := <-in:
			delete(missing, d.Hint.ID)
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d hints were not delivered", len(missing), len(entries))
		}
	}
}
