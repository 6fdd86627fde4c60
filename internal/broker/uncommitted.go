package broker

import (
	"context"
	"fmt"
	"sync"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

const parallelReads = 8 // partitions whose records RecordsAt reads side by side

// Span is the offsets from From up to but not including To.
type Span struct{ From, To int64 }

// Uncommitted returns how many partitions the topic has, and the uncommitted offsets of each partition that answers.
func (c *Client) Uncommitted(ctx context.Context, topic, group string) (partitions int, spans map[int]Span, err error) {
	if partitions, err = c.Partitions(ctx, topic); err != nil {
		return 0, nil, err
	}
	ids := make([]int, partitions)
	for i := range ids {
		ids[i] = i
	}
	res, err := c.kafka.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: ids}})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, nil, fmt.Errorf("committed offsets of %s: %w", group, err)
	}
	starts, err := c.logOffsets(ctx, topic, partitions, kafka.FirstOffset)
	if err != nil {
		return 0, nil, err
	}
	ends, err := c.logOffsets(ctx, topic, partitions, kafka.LastOffset)
	if err != nil {
		return 0, nil, err
	}
	spans = map[int]Span{}
	for _, committed := range res.Topics[topic] {
		start, hasStart := starts[committed.Partition]
		end, hasEnd := ends[committed.Partition]
		if committed.Error != nil || !hasStart || !hasEnd {
			continue
		}
		from := max(committed.CommittedOffset, start)
		if from > end {
			from = start // the log was wiped: readers begin at its start
		}
		spans[committed.Partition] = Span{from, end}
	}
	return partitions, spans, nil
}

// logOffsets returns the first or the last offset of each partition that answers.
func (c *Client) logOffsets(ctx context.Context, topic string, partitions int, which int64) (map[int]int64, error) {
	reqs := make([]kafka.OffsetRequest, partitions)
	for i := range reqs {
		reqs[i] = kafka.OffsetRequest{Partition: i, Timestamp: which}
	}
	res, err := c.kafka.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: reqs}})
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", topic, err)
	}
	out := map[int]int64{}
	for _, p := range res.Topics[topic] {
		switch {
		case p.Error != nil:
		case which == kafka.FirstOffset:
			out[p.Partition] = p.FirstOffset
		default:
			out[p.Partition] = p.LastOffset
		}
	}
	return out, nil
}

// RecordsAt reads one record at the given offset of each partition. Unreadable records are left out.
func (c *Client) RecordsAt(ctx context.Context, topic string, offsets map[int]int64) map[int]Record {
	var (
		mu    sync.Mutex
		reads errgroup.Group
		out   = map[int]Record{}
	)
	reads.SetLimit(parallelReads)
	for partition, offset := range offsets {
		reads.Go(func() error {
			if r, found := c.recordAt(ctx, topic, partition, offset); found {
				mu.Lock()
				defer mu.Unlock()
				out[partition] = r
			}
			return nil
		})
	}
	_ = reads.Wait()
	return out
}

func (c *Client) recordAt(ctx context.Context, topic string, partition int, offset int64) (r Record, found bool) {
	res, err := c.kafka.Fetch(ctx, &kafka.FetchRequest{
		Topic: topic, Partition: partition, Offset: offset,
		MinBytes: 1, MaxBytes: 1, MaxWait: maxFetchWait, // the broker returns one whole batch, however large
	})
	if err != nil || res.Error != nil {
		return r, false
	}
	records, err := c.cfg.readRecords(res.Records, partition, offset)
	if err != nil || len(records) == 0 {
		return r, false
	}
	return records[0], true
}
