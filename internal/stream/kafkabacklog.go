package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// backlogWorkers is how many partitions' first uncommitted records are fetched side by side.
const backlogWorkers = 8

// Backlog tells what the queue's group has not committed yet, within three seconds. A partition of which something
// could not be learnt explains nothing.
func (k *Kafka) Backlog(ctx context.Context, queue string) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sub := k.names.queue(queue)
	n, err := k.partitions(ctx, sub.topic)
	if err != nil {
		return nil, fmt.Errorf("backlog of %s: %w", queue, err)
	}
	spans, err := k.uncommitted(ctx, sub, n)
	if err != nil {
		return nil, fmt.Errorf("backlog of %s: %w", queue, err)
	}
	from, settled := map[int]int64{}, map[int]bool{}
	for partition, s := range spans {
		if s.from < s.to {
			from[partition] = s.from
		} else {
			settled[partition] = true
		}
	}
	return &backlog{partitions: n, settled: settled, first: k.published(ctx, sub.topic, from)}, nil
}

// Lag returns how many of the queue's hints its group has not committed yet, within three seconds; an error where not
// every partition answered.
func (k *Kafka) Lag(ctx context.Context, queue string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sub := k.names.queue(queue)
	n, err := k.partitions(ctx, sub.topic)
	if err != nil {
		return 0, fmt.Errorf("lag of %s: %w", queue, err)
	}
	spans, err := k.uncommitted(ctx, sub, n)
	if err != nil {
		return 0, fmt.Errorf("lag of %s: %w", queue, err)
	}
	if len(spans) < n {
		return 0, fmt.Errorf("lag of %s: %d of %d partitions don't answer", queue, n-len(spans), n)
	}
	var lag int64
	for _, s := range spans {
		lag += s.to - s.from
	}
	return lag, nil
}

// span is what a group has not committed of a partition: offsets from up to but not including to.
type span struct{ from, to int64 }

// uncommitted returns the span of each partition that answers.
func (k *Kafka) uncommitted(ctx context.Context, sub subscription, n int) (map[int]span, error) {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	res, err := k.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: sub.group, Topics: map[string][]int{sub.topic: ids},
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return nil, fmt.Errorf("committed offsets of %s: %w", sub.group, err)
	}
	first, err := k.ends(ctx, sub.topic, n, kafka.FirstOffset)
	if err != nil {
		return nil, err
	}
	last, err := k.ends(ctx, sub.topic, n, kafka.LastOffset)
	if err != nil {
		return nil, err
	}
	spans := map[int]span{}
	for _, c := range res.Topics[sub.topic] {
		f, okF := first[c.Partition]
		l, okL := last[c.Partition]
		if c.Error != nil || !okF || !okL {
			continue
		}
		from := max(c.CommittedOffset, f)
		if from > l {
			from = f // the log was wiped: readers start at its start
		}
		spans[c.Partition] = span{from, l}
	}
	return spans, nil
}

// ends returns the first or the last offset of each partition that answers.
func (k *Kafka) ends(ctx context.Context, topic string, n int, which int64) (map[int]int64, error) {
	reqs := make([]kafka.OffsetRequest, n)
	for i := range reqs {
		reqs[i] = kafka.OffsetRequest{Partition: i, Timestamp: which}
	}
	res, err := k.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: reqs}})
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

// published fetches one record per partition and tells when it was published.
func (k *Kafka) published(ctx context.Context, topic string, from map[int]int64) map[int]time.Time {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		slots = make(chan struct{}, backlogWorkers)
		out   = map[int]time.Time{}
	)
	for partition, offset := range from {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if at := k.publishedAt(ctx, topic, partition, offset); !at.IsZero() {
				mu.Lock()
				out[partition] = at
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// publishedAt is zero where it can't be learnt.
func (k *Kafka) publishedAt(ctx context.Context, topic string, partition int, offset int64) time.Time {
	res, err := k.client.Fetch(ctx, &kafka.FetchRequest{
		Topic: topic, Partition: partition, Offset: offset,
		MinBytes: 1, MaxBytes: 1, MaxWait: fetchWait, // the broker gives one whole batch however large
	})
	if err != nil || res.Error != nil {
		return time.Time{}
	}
	recs, err := readRecords(res.Records, partition, offset)
	if err != nil || len(recs) == 0 {
		return time.Time{}
	}
	_, at, err := decodeHint(recs[0].value)
	if err != nil {
		return time.Time{}
	}
	return at
}
