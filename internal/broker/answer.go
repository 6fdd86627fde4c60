package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetchRequest is a fetch whose answer keeps its records encoded. kafka-go would decode all of them at once, and takes a page of
// 64 KiB for each batch: some 500 MiB for a MiB of batches with one small record each.
type fetchRequest struct {
	fetch.Request

	apiVersion int16 // which the broker and kafka-go have agreed on
}

// fetchResponse is fetch.Response with encoded records.
type fetchResponse struct {
	ThrottleTimeMs int32           `kafka:"min=v1,max=v11"`
	ErrorCode      int16           `kafka:"min=v7,max=v11"`
	SessionID      int32           `kafka:"min=v7,max=v11"`
	Topics         []topicResponse `kafka:"min=v0,max=v11"`
}

type topicResponse struct {
	Topic      string              `kafka:"min=v0,max=v11"`
	Partitions []partitionResponse `kafka:"min=v0,max=v11"`
}

type partitionResponse struct {
	Partition            int32                       `kafka:"min=v0,max=v11"`
	ErrorCode            int16                       `kafka:"min=v0,max=v11"`
	HighWatermark        int64                       `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                       `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                       `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetch.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                       `kafka:"min=v11,max=v11"`
	Records              []byte                      `kafka:"min=v0,max=v11"`
}

// ApiKey has the name that kafka-go asks for.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch } //nolint:revive // the name

func (t topicResponse) served() bool {
	return slices.ContainsFunc(t.Partitions, func(p partitionResponse) bool { return len(p.Records) > 0 })
}

var (
	_ protocol.BrokerMessage = (*fetchRequest)(nil)
	_ protocol.RawExchanger  = (*fetchRequest)(nil)
)

// Required reports that RawExchange is to be called.
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.apiVersion = versions[protocol.Fetch]
	return true
}

// RawExchange writes the request and reads its answer. A connection has one request at a time, so each may have the same number.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const number = 1
	if err := protocol.WriteRequest(rw, r.apiVersion, number, clientID, &r.Request); err != nil {
		return nil, err
	}
	var head struct{ Size, Number uint32 }
	if err := binary.Read(rw, binary.BigEndian, &head); err != nil {
		return nil, fmt.Errorf("read the size of an answer: %w", err)
	}
	if head.Size < 4 || head.Number != number {
		return nil, errors.New("the answer is to another request")
	}
	body := make([]byte, head.Size-4)
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, fmt.Errorf("read an answer of %d bytes: %w", head.Size, err)
	}
	res := &fetchResponse{}
	if err := protocol.Unmarshal(body, r.apiVersion, res); err != nil {
		return nil, fmt.Errorf("decode an answer: %w", err)
	}
	return res, nil
}

// readBatches copies the records from offset on out of a partition's batches, one batch after the other: each takes the pages of
// the one before.
func (c *Config) readBatches(raw []byte, partition int, offset int64) (out []Record, err error) {
	const head = 12 // bytes of a batch: its first offset, and the length of the rest
	var batch bytes.Buffer
	for len(raw) >= head {
		n := head + int(binary.BigEndian.Uint32(raw[head-4:]))
		if n > len(raw) {
			break // the broker has cut the last batch
		}
		batch.Reset()
		_ = binary.Write(&batch, binary.BigEndian, uint32(n)) //nolint:gosec // at most len(raw)
		batch.Write(raw[:n])
		set := protocol.RecordSet{}
		if _, err := set.ReadFrom(&batch); err != nil {
			return out, err
		}
		if set.Records != nil {
			records, err := c.readRecords(set.Records, partition, offset)
			out = append(out, records...)
			if err != nil {
				return out, err
			}
		}
		raw = raw[n:]
	}
	return out, nil
}
