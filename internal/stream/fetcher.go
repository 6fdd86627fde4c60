package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	fetchWait         = time.Second // how long the broker holds a fetch that finds nothing, at most; an append ends it at once
	maxPartitionBytes = 1 << 20     // of one partition in one answer
	maxAnswerBytes    = 64 << 20    // of one answer
)

// fetcher asks each broker for what the readers of a session want of it in one request. Each of its own would cost the broker,
// and us, as much as one for all. Readers that ask within a millisecond go together; those that miss a request make another,
// and all meet again at the next full second at the latest, when requests that found nothing end.
type fetcher struct {
	k     *Kafka
	topic string
	asks  gathering[*ask]

	mu     sync.Mutex
	client *kafka.Client
	own    *kafka.Transport // of client, once the shared one was given up
	made   time.Time        // client was
}

// ask is what one reader wants.
type ask struct {
	partition int
	offset    int64
	answer    chan answer // holds it
}

type answer struct {
	records       kafka.RecordReader
	highWatermark int64
	err           error
}

// fetch returns what comes at the offset of a partition, be it nothing, within fetchWait and two callTimeouts. ctx is that of
// the session.
func (f *fetcher) fetch(ctx context.Context, partition int, offset int64) (kafka.RecordReader, int64, error) {
	own := &ask{partition, offset, make(chan answer, 1)}
	f.asks.add(own, func(all []*ask) { f.send(ctx, all) })
	a := <-own.answer
	return a.records, a.highWatermark, a.err
}

// send asks the leaders.
func (f *fetcher) send(ctx context.Context, asks []*ask) {
	client := f.present()
	lookUp, cancel := context.WithTimeout(ctx, callTimeout)
	led, err := leaders(lookUp, client, f.topic)
	cancel()
	together := map[int][]*ask{} // by broker
	for _, a := range asks {
		broker, ok := led[a.partition]
		switch {
		case err != nil:
			a.answer <- answer{err: err}
		case !ok:
			a.answer <- answer{err: kafka.LeaderNotAvailable}
		default:
			together[broker] = append(together[broker], a)
		}
	}
	for _, some := range together {
		go f.request(ctx, client, some)
	}
}

// present is the client of now.
func (f *fetcher) present() *kafka.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

// request asks one broker, and answers all.
func (f *fetcher) request(ctx context.Context, client *kafka.Client, asks []*ask) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait+callTimeout)
	defer cancel()
	now := time.Now()
	topic, sent := fetch.RequestTopic{Topic: f.topic}, map[int]*ask{}
	for _, a := range asks {
		sent[a.partition] = a
		topic.Partitions = append(topic.Partitions, fetch.RequestPartition{
			Partition: int32(a.partition), CurrentLeaderEpoch: -1, FetchOffset: a.offset, LogStartOffset: -1, //nolint:gosec // at most 10,000
			PartitionMaxBytes: maxPartitionBytes,
		})
	}
	got, err := client.Transport.RoundTrip(ctx, client.Addr, &fetch.Request{
		ReplicaID: -1, SessionID: -1, SessionEpoch: -1, MinBytes: 1, MaxBytes: int32(min(maxPartitionBytes*len(asks), maxAnswerBytes)),
		MaxWaitTime: int32(now.Truncate(fetchWait).Add(fetchWait).Sub(now) / time.Millisecond), //nolint:gosec // at most 1000
		Topics:      []fetch.RequestTopic{topic},
	})
	res, ours := got.(*fetch.Response)
	switch {
	case err == nil && !ours:
		err = errNotAnswered
	case err == nil && res.ErrorCode != 0:
		err = kafka.Error(res.ErrorCode)
	}
	if err == nil {
		err = errNotAnswered // for those that it leaves out
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if a := sent[int(p.Partition)]; a != nil {
					delete(sent, a.partition)
					a.answer <- read(p)
				}
			}
		}
	}
	for _, a := range sent {
		a.answer <- answer{err: err}
	}
}

func read(p fetch.ResponsePartition) answer {
	if p.ErrorCode != 0 {
		return answer{err: kafka.Error(p.ErrorCode)}
	}
	a := answer{records: p.RecordSet.Records, highWatermark: p.HighWatermark}
	if a.records == nil {
		a.records = kafka.NewRecordReader()
	}
	return a
}

// firstOffset asks for the log's start.
func (f *fetcher) firstOffset(ctx context.Context, partition int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := f.present().ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{f.topic: {kafka.FirstOffsetOf(partition)}},
	})
	if err != nil {
		return 0, fmt.Errorf("first offset of %s/%d: %w", f.topic, partition, err)
	}
	for _, p := range res.Topics[f.topic] {
		if p.Partition != partition {
			continue
		}
		if p.Error != nil {
			return 0, fmt.Errorf("first offset of %s/%d: %w", f.topic, partition, p.Error)
		}
		return p.FirstOffset, nil
	}
	return 0, fmt.Errorf("first offset of %s/%d: %w", f.topic, partition, kafka.UnknownTopicOrPartition)
}

// remake takes a new connection pool with a new view of the cluster, unless another reader did so since the moment.
func (f *fetcher) remake(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.After(since) {
		return
	}
	f.closeOwn()
	f.k.metrics.remade.Inc()
	f.own, f.client = f.k.newClient()
	f.made = time.Now()
}

// close is for when no reader asks any more.
func (f *fetcher) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeOwn()
}

func (f *fetcher) closeOwn() {
	if f.own != nil {
		f.own.CloseIdleConnections()
	}
}

// leaders returns the broker that leads each partition of a topic which has one.
func leaders(ctx context.Context, c *kafka.Client, topic string) (map[int]int, error) {
	t, err := describe(ctx, c, topic)
	if err != nil {
		return nil, err
	}
	of := map[int]int{}
	for _, p := range t.Partitions {
		if p.Error == nil && p.Leader.Host != "" {
			of[p.ID] = p.Leader.ID
		}
	}
	return of, nil
}
