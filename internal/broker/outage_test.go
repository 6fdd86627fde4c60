package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestBrokerFrozen(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnKafka(t)
	w := newWorldWithTopic(t, server.Addr(), 4)
	in := w.consume()
	w.eventually(in, "before")
	pipelinetest.Must(t, server.Freeze())
	begun := time.Now()
	errs := w.produceWithin(4*time.Second, maxUnanswered)
	if errs == nil || !errors.Is(errs[0], ErrOutcomeUnknown) {
		t.Errorf("with the broker frozen: %v, want ErrOutcomeUnknown", errs[0])
	}
	errs = w.produceWithin(time.Second, 1)
	if errs == nil || !strings.Contains(errs[0].Error(), "in flight") {
		t.Errorf("with all that in flight: %v, want no more of it", errs)
	}
	if d := time.Since(begun); d > 9*time.Second { // it would take ten without the callers' limits
		t.Errorf("the error took %s", d)
	}
	pipelinetest.Must(t, server.Thaw())
	t.Logf("healed after %s", w.eventually(in, "after"))
}

func (w *world) produceWithin(d time.Duration, n int) []error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	messages := make([]Message, n)
	for i := range messages {
		messages[i] = Message{Key: fmt.Appendf(nil, "while-%d", i%100), Value: []byte("v")}
	}
	return w.Produce(ctx, w.topic.Name, messages)
}

// early sees no partition the first time, like a leader whose topic comes back right after it looked.
type early struct {
	kafka.GroupBalancer
	looked *atomic.Bool
}

func (e early) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	if !e.looked.Swap(true) {
		partitions = nil
	}
	return e.GroupBalancer.AssignGroups(members, partitions)
}

func TestTopicThatComesBackDuringTheAssignment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pipelinetest.Kafka(t).Addr(), 4)
	var looked atomic.Bool
	w.wrapBalancer = func(b kafka.GroupBalancer) kafka.GroupBalancer { return early{b, &looked} }
	in := w.consume()
	for i := range 4 {
		t.Logf("delivered after %s", w.eventually(in, fmt.Sprintf("owner-%d", i)))
	}
	if !looked.Load() {
		t.Error("nobody assigned anything")
	}
}
