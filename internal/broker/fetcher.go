package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	maxFetchWait      = time.Second // how long the broker holds a fetch that finds nothing; an append ends the wait at once
	maxPartitionBytes = 1 << 20     // of one partition in one answer
	maxAnswerBytes    = 4 << 20     // of one answer; some 20,000 hints
)

// fetcher sends each broker one request for all readers of a session. One request for each reader would cost the broker,
// and us, as much as one for all. Readers that ask within a millisecond share a request. Later readers share another
// request. Requests that found nothing end at each full second, so all readers meet then at the latest.
type fetcher struct {
	c       *Client
	topic   string
	fetches gatherer[*partitionFetch]

	mu        sync.Mutex
	client    *kafka.Client
	transport *kafka.Transport // of client, once reconnect has replaced the shared client
	connected time.Time        // when transport was made
}

// partitionFetch is one reader's request.
type partitionFetch struct {
	partition int
	offset    int64
	since     time.Time        // of the reader's last progress
	answer    chan fetchAnswer // has room for the answer
}

type fetchAnswer struct {
	batches       []byte
	highWatermark int64
	leftOut       bool // there are no batches, and the broker may have filled its answer with other partitions
	err           error
}

// newFetcher makes the fetcher of a session that ends with ctx.
func newFetcher(ctx context.Context, c *Client, topic string) *fetcher {
	f := &fetcher{c: c, topic: topic, client: c.kafka}
	f.fetches.flush = func(fetches []*partitionFetch) { f.send(ctx, fetches) }
	return f
}

// fetch returns the records at the offset of a partition, perhaps none, within maxFetchWait and two callTimeouts.
func (f *fetcher) fetch(partition int, offset int64, since time.Time) fetchAnswer {
	mine := &partitionFetch{partition, offset, since, make(chan fetchAnswer, 1)}
	f.fetches.add(mine)
	return <-mine.answer
}

// send asks the leader of each partition.
func (f *fetcher) send(ctx context.Context, fetches []*partitionFetch) {
	client := f.currentClient()
	lookUp, cancel := context.WithTimeout(ctx, callTimeout)
	leaderOf, err := leaders(lookUp, client, f.topic)
	cancel()
	byBroker := map[int][]*partitionFetch{}
	for _, p := range fetches {
		broker, known := leaderOf[p.partition]
		switch {
		case err != nil:
			p.answer <- fetchAnswer{err: err}
		case !known:
			p.answer <- fetchAnswer{err: kafka.LeaderNotAvailable}
		default:
			byBroker[broker] = append(byBroker[broker], p)
		}
	}
	for _, fetches := range byBroker {
		go f.request(ctx, client, fetches)
	}
}

// request asks one broker, and answers all its readers. The broker fills its answer in the order of the partitions: who has made no
// progress for longest is the first.
func (f *fetcher) request(ctx context.Context, client *kafka.Client, fetches []*partitionFetch) {
	ctx, cancel := context.WithTimeout(ctx, maxFetchWait+callTimeout)
	defer cancel()
	now := time.Now()
	slices.SortFunc(fetches, func(a, b *partitionFetch) int { return a.since.Compare(b.since) })
	topic, unanswered := fetch.RequestTopic{Topic: f.topic}, map[int]*partitionFetch{}
	for _, p := range fetches {
		unanswered[p.partition] = p
		topic.Partitions = append(topic.Partitions, fetch.RequestPartition{
			Partition: int32(p.partition), CurrentLeaderEpoch: -1, FetchOffset: p.offset, LogStartOffset: -1, //nolint:gosec // at most 10,000
			PartitionMaxBytes: maxPartitionBytes,
		})
	}
	answer, err := client.Transport.RoundTrip(ctx, client.Addr, &fetchRequest{Request: fetch.Request{
		ReplicaID: -1, SessionID: -1, SessionEpoch: -1, MinBytes: 1, MaxBytes: int32(min(maxPartitionBytes*len(fetches), maxAnswerBytes)),
		MaxWaitTime: int32(now.Truncate(maxFetchWait).Add(maxFetchWait).Sub(now) / time.Millisecond), //nolint:gosec // at most 1000
		Topics:      []fetch.RequestTopic{topic},
	}})
	res, isFetch := answer.(*fetchResponse)
	switch {
	case err == nil && !isFetch:
		err = errNotAnswered
	case err == nil && res.ErrorCode != 0:
		err = kafka.Error(res.ErrorCode)
	}
	if err == nil {
		err = errNotAnswered // for partitions that the answer lacks
		served := slices.ContainsFunc(res.Topics, topicResponse.served)
		for _, t := range res.Topics {
			for _, part := range t.Partitions {
				if p := unanswered[int(part.Partition)]; p != nil {
					delete(unanswered, p.partition)
					p.answer <- answerOf(part, p != fetches[0] && served)
				}
			}
		}
	}
	for _, p := range unanswered {
		p.answer <- fetchAnswer{err: err}
	}
}

func answerOf(p partitionResponse, full bool) fetchAnswer {
	if p.ErrorCode != 0 {
		return fetchAnswer{err: kafka.Error(p.ErrorCode)}
	}
	return fetchAnswer{batches: p.Records, highWatermark: p.HighWatermark, leftOut: full && len(p.Records) == 0}
}

// firstOffset asks for the log's first offset.
func (f *fetcher) firstOffset(ctx context.Context, partition int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := f.currentClient().ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{f.topic: {kafka.FirstOffsetOf(partition)}},
	})
	if err == nil {
		err = kafka.UnknownTopicOrPartition
		for _, p := range res.Topics[f.topic] {
			if p.Partition == partition && p.Error == nil {
				return p.FirstOffset, nil
			}
			if p.Partition == partition {
				err = p.Error
			}
		}
	}
	return 0, fmt.Errorf("first offset of %s/%d: %w", f.topic, partition, err)
}

func (f *fetcher) currentClient() *kafka.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

// reconnect makes a new connection pool with a new view of the cluster, unless another reader did so after since.
func (f *fetcher) reconnect(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connected.After(since) {
		return
	}
	f.closeConnections()
	f.c.metrics.reconnects.Inc()
	f.transport, f.client = f.c.connect()
	f.connected = time.Now()
}

// close closes the fetcher's own connections. No reader may call fetch afterwards.
func (f *fetcher) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeConnections()
}

func (f *fetcher) closeConnections() {
	if f.transport != nil {
		f.transport.CloseIdleConnections()
	}
}
