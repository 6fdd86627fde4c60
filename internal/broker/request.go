package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

const (
	maxRequestBytes    = 8 << 20
	replicationTimeout = callTimeout / 2 // with slow replicas the broker then answers for each partition, not for none
)

// requestPlan collects the batches of one request: each partition once, up to maxRequestBytes.
type requestPlan struct {
	batches    []*partitionBatch
	partitions map[topicPartition]bool
	bytes      int
}

func (r *requestPlan) takes(b *partitionBatch) bool {
	return !r.partitions[b.topicPartition] && r.bytes+b.bytes <= maxRequestBytes
}

func (r *requestPlan) add(b *partitionBatch) {
	r.partitions[b.topicPartition] = true
	r.batches = append(r.batches, b)
	r.bytes += b.bytes
}

// plan returns the batches of each request, and the batches whose partition has no leader.
func (p *producer) plan(ctx context.Context, batches []*partitionBatch) (requests [][]*partitionBatch, leaderless []*partitionBatch) {
	leaderOf := map[string]map[int]int{}
	open := map[int]*requestPlan{} // by broker
	for _, b := range batches {
		if leaderOf[b.topic] == nil {
			leaderOf[b.topic], _ = leaders(ctx, p.client, b.topic) // after an error no partition has a leader
		}
		broker, known := leaderOf[b.topic][b.partition]
		if !known {
			b.err = kafka.LeaderNotAvailable
			leaderless = append(leaderless, b)
			continue
		}
		r := open[broker]
		if r == nil || !r.takes(b) {
			if r != nil {
				requests = append(requests, r.batches)
			}
			r = &requestPlan{partitions: map[topicPartition]bool{}}
			open[broker] = r
		}
		r.add(b)
	}
	for _, r := range open {
		requests = append(requests, r.batches)
	}
	return requests, leaderless
}

// send makes one request of the batches, and sets their errors.
func (p *producer) send(ctx context.Context, batches []*partitionBatch) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := map[topicPartition]*partitionBatch{}
	for _, b := range batches {
		b.err, sent[b.topicPartition] = errNotAnswered, b
	}
	answer, err := p.client.Transport.RoundTrip(ctx, p.client.Addr, produceRequest(batches))
	res, isProduce := answer.(*produce.Response)
	if err == nil && !isProduce {
		err = errNotAnswered
	}
	if err != nil {
		for _, b := range batches {
			b.err = err
		}
		return
	}
	for _, t := range res.Topics {
		for _, partition := range t.Partitions {
			if b := sent[topicPartition{t.Topic, int(partition.Partition)}]; b != nil {
				b.err = refusal(partition)
			}
		}
	}
}

// produceRequest writes the request, which names each topic once.
func produceRequest(batches []*partitionBatch) *produce.Request {
	byTopic := map[string][]produce.RequestPartition{}
	for _, b := range batches {
		byTopic[b.topic] = append(byTopic[b.topic], produce.RequestPartition{
			Partition: int32(b.partition), //nolint:gosec // at most 10,000
			RecordSet: protocol.RecordSet{Records: kafka.NewRecordReader(b.records()...)},
		})
	}
	req := &produce.Request{Acks: int16(kafka.RequireAll), Timeout: int32(replicationTimeout / time.Millisecond)}
	for topic, partitions := range byTopic {
		req.Topics = append(req.Topics, produce.RequestTopic{Topic: topic, Partitions: partitions})
	}
	return req
}

func refusal(p produce.ResponsePartition) error {
	switch {
	case p.ErrorCode == 0:
		return nil
	case p.ErrorMessage != "":
		return fmt.Errorf("%w: %s", kafka.Error(p.ErrorCode), p.ErrorMessage)
	default:
		return kafka.Error(p.ErrorCode)
	}
}
