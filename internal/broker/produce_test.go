package broker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// createNarrow creates a topic of one partition that refuses batches above its limit.
func (w *world) createNarrow(name string, bytes int) {
	w.t.Helper()
	res, err := w.kafka.CreateTopics(w.t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: name, NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(bytes)}},
	}}})
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, res.Errors[name])
}

// A topic may have a smaller limit than our batches, and one message above the limit must not fail the others of its
// batch.
func TestLargeBatchIsParted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pipelinetest.Kafka(t).Addr(), 1)
	w.createNarrow(w.topic.Name, 500)
	pipelinetest.Must(t, w.Ensure(t.Context()))
	values := make([]string, 40)
	for i := range values {
		values[i] = fmt.Sprintf("%0150d", i)
	}
	values[7] = strings.Repeat("o", 400)
	errs := w.produce(values...)
	for i, err := range errs {
		if (err != nil) != (i == 7) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if len(errs) == 0 || !IsPermanent(errs[7]) {
		t.Errorf("%v, want the large one alone refused for good", errs)
	}
}

// Messages that are too many for one batch, or one request, are sent in several.
func TestManyAndLargeMessages(t *testing.T) {
	t.Parallel()
	w := newWorldWithTopic(t, pipelinetest.Kafka(t).Addr(), 2)
	in := w.consume()
	values := make([]string, 12_000)
	missing := map[string]bool{}
	for i := range values {
		values[i] = fmt.Sprintf("%0150d", i)
		missing[values[i]] = true
	}
	if errs := w.produce(values...); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	for len(missing) > 0 {
		select {
		case r := <-in:
			delete(missing, string(r.Value))
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d messages were not delivered", len(missing), len(values))
		}
	}
}
