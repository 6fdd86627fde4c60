package pipelinetest_test

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestKafkaDeleteRecords(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.Kafka(t)
	topic := pipelinetest.Namespace(t)
	pipelinetest.Must(t, writeAndRead(t.Context(), s.Addr(), topic))
	transport := &kafka.Transport{DialTimeout: time.Second}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(s.Addr()), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Transport: transport,
	}
	defer func() { _ = w.Close() }()
	pipelinetest.Must(t, w.WriteMessages(t.Context(), make([]kafka.Message, 9)...))
	expect := func(step string, wantFirst, wantLast int64) {
		t.Helper()
		conn, err := kafka.DialLeader(t.Context(), "tcp", s.Addr(), topic, 0)
		pipelinetest.Must(t, err)
		defer func() { _ = conn.Close() }()
		if first, last, err := conn.ReadOffsets(); err != nil || first != wantFirst || last != wantLast {
			t.Errorf("%s: got offsets %d to %d, %v, want %d to %d", step, first, last, err, wantFirst, wantLast)
		}
	}
	expect("at first", 0, 10)
	pipelinetest.Must(t, s.DeleteRecords(topic, 0, 4))
	expect("below 4 deleted", 4, 10)
	if err := s.DeleteRecords(topic, 0, 11); err == nil {
		t.Error("deleted records that are not there yet")
	}
	pipelinetest.Must(t, s.DeleteRecords(topic, 0, -1))
	expect("all deleted", 10, 10)
	if err := s.DeleteRecords("no-such-topic", 0, -1); err == nil {
		t.Error("deleted the records of a topic that is not there")
	}
}

func TestKafkaWipe(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnKafka(t)
	pipelinetest.Must(t, writeAndRead(t.Context(), s.Addr(), "gone"))
	pipelinetest.Must(t, s.Wipe())
	conn, err := kafka.Dial("tcp", s.Addr())
	pipelinetest.Must(t, err)
	defer func() { _ = conn.Close() }()
	if got, err := conn.ReadPartitions(); err != nil || len(got) != 0 {
		t.Errorf("after Wipe: got partitions %v, %v, want none", got, err)
	}
	pipelinetest.Must(t, writeAndRead(t.Context(), s.Addr(), "gone"))
}
