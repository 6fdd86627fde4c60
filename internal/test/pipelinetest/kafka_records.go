package pipelinetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
)

const deleteLimit = 30 * time.Second

// DeleteRecords moves the start of a partition's log up to the offset before, and so loses every record that has a
// lower one; -1 is the log's end. Groups keep the offsets they stand at.
func (s *KafkaServer) DeleteRecords(topic string, partition int, before int64) error {
	conn, err := net.DialTimeout("tcp", s.Addr(), deleteLimit)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(deleteLimit))
	if _, err := conn.Write(deleteRecordsRequest(topic, int32(partition), before)); err != nil { //nolint:gosec // partitions are few
		return fmt.Errorf("ask to delete records of %s: %w", topic, err)
	}
	code, err := deleteRecordsAnswer(conn)
	if err != nil {
		return fmt.Errorf("delete records of %s: %w", topic, err)
	}
	if code != 0 {
		return fmt.Errorf("delete records of %s below %d: %w", topic, before, kafka.Error(code))
	}
	return nil
}

// deleteRecordsRequest is DeleteRecords in version 1 of Kafka's protocol, for which kafka-go has no call.
func deleteRecordsRequest(topic string, partition int32, before int64) []byte {
	const key, version, correlation, one = int16(21), int16(1), int32(1), int32(1)
	var body bytes.Buffer
	for _, field := range []any{
		key, version, correlation, int16(0), // no client's name
		one, int16(len(topic)), []byte(topic), //nolint:gosec // Kafka takes names of up to 249
		one, partition, before, int32(deleteLimit / time.Millisecond),
	} {
		_ = binary.Write(&body, binary.BigEndian, field) // a buffer takes all that has a fixed size
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(body.Len())), body.Bytes()...) //nolint:gosec // some 300 bytes
}

// deleteRecordsAnswer returns the error code, which for one topic with one partition stands last in the answer.
func deleteRecordsAnswer(r io.Reader) (int16, error) {
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil {
		return 0, fmt.Errorf("read the answer's size: %w", err)
	}
	if size < 4 || size > 1<<16 {
		return 0, fmt.Errorf("an answer of %d bytes", size)
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(r, answer); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	return int16(binary.BigEndian.Uint16(answer[size-2:])), nil //nolint:gosec // Kafka's codes are signed
}
