package stream_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// A message that its topic refuses doesn't fail any other message.
func TestRefusalConcernsItsTopicAlone(t *testing.T) {
	t.Parallel()
	addr, namespace := pipelinetest.Kafka(t).Addr(), pipelinetest.Namespace(t)
	narrowTopic(t, addr, namespace+".q.narrow", 10)
	u := openKafka(t, addr, stream.Config{Namespace: namespace, Queues: []string{"default", "narrow"}, Partitions: 4, Logger: testLogger(t)})
	narrow := entry("a", 1)
	narrow.Queue = "narrow"
	both := u.Publish(t.Context(), []protocol.Entry{entry("a", 2), narrow}, 1)
	if len(both) != 2 || both[0] != nil || !errors.Is(both[1], kafka.MessageSizeTooLarge) {
		t.Errorf("publish to both: %v, want only the second refused", both)
	}
}

// narrowTopic creates a topic of one partition that refuses batches above its limit.
func narrowTopic(t *testing.T, addr, name string, bytes int) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: name, NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(bytes)}},
	}}})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, res.Errors[name])
}
