package stream_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// A message that its topic refuses takes nothing else with it.
func TestRefusalConcernsItsTopicAlone(t *testing.T) {
	t.Parallel()
	addr, namespace := pipelinetest.Kafka(t).Addr(), pipelinetest.Namespace(t)
	narrowTopic(t, addr, namespace+".q.narrow", 10)
	u := openKafka(t, addr, stream.Config{Namespace: namespace, Queues: []string{"default", "narrow"}, Partitions: 4, Logger: testLogger(t)})
	narrow := entry("a", 1)
	narrow.Queue = "narrow"
	both := u.Publish(t.Context(), []task.Entry{entry("a", 2), narrow}, 1)
	if len(both) != 2 || both[0] != nil || !errors.Is(both[1], kafka.MessageSizeTooLarge) {
		t.Errorf("publish to both: %v, want only the second refused", both)
	}
}

// narrowTopic makes a topic of one partition that refuses larger batches.
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

// A topic may take smaller batches than ours, and one message that is too large for it takes no other of its batch along.
func TestLargeBatchIsParted(t *testing.T) {
	t.Parallel()
	addr, namespace := pipelinetest.Kafka(t).Addr(), pipelinetest.Namespace(t)
	narrowTopic(t, addr, namespace+".q.narrow", 500)
	u := openKafka(t, addr, stream.Config{Namespace: namespace, Queues: []string{"narrow"}, Partitions: 1, Logger: testLogger(t)})
	entries := make([]task.Entry, 40)
	for i := range entries {
		entries[i] = entry("a", i)
		entries[i].Queue = "narrow"
	}
	entries[7].Owner = strings.Repeat("o", 200)
	errs := u.Publish(t.Context(), entries, 1)
	for i, err := range errs {
		if (err != nil) != (i == 7) {
			t.Errorf("hint %d: %v", i, err)
		}
	}
	var permanent interface{ Permanent() bool }
	if len(errs) == 0 || !errors.As(errs[7], &permanent) || !permanent.Permanent() {
		t.Errorf("%v, want the large one alone refused for good", errs)
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
