package broker

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// logs are brokers that hold each fetch as long as it may wait, and return the requested offset as the high watermark.
type logs struct {
	brokers
	refuse map[int]kafka.Error // partitions whose fetches end at once with this error
	mute   map[int]bool        // partitions that answers lack
	full   bool                // an answer has room for a batch of the partition that is asked for first, and all have more

	mu    sync.Mutex
	asked [][]int // partitions of each request
}

func (l *logs) RoundTrip(ctx context.Context, addr net.Addr, r kafka.Request) (kafka.Response, error) {
	req, ours := r.(*fetchRequest)
	if !ours {
		return l.brokers.RoundTrip(ctx, addr, r)
	}
	res := &fetchResponse{Topics: []topicResponse{{Topic: req.Topics[0].Topic}}}
	wait := time.Duration(req.MaxWaitTime) * time.Millisecond
	var partitions []int
	for i, p := range req.Topics[0].Partitions {
		partitions = append(partitions, int(p.Partition))
		code := l.refuse[int(p.Partition)]
		if code != 0 {
			wait = 0
		}
		part := partitionResponse{Partition: p.Partition, ErrorCode: int16(code), HighWatermark: p.FetchOffset}
		if l.full {
			wait, part.HighWatermark = 0, p.FetchOffset+1
			if i == 0 {
				part.Records = []byte("a batch")
			}
		}
		if !l.mute[int(p.Partition)] {
			res.Topics[0].Partitions = append(res.Topics[0].Partitions, part)
		}
	}
	l.mu.Lock()
	l.asked = append(l.asked, partitions)
	l.mu.Unlock()
	select {
	case <-time.After(wait):
		return res, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// requests returns the number of requests so far.
func (l *logs) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

func newTestFetcher(ctx context.Context, l *logs) *fetcher {
	return newFetcher(ctx, &Client{kafka: &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: l}}, "t")
}

// Readers that ask at different times share a request from the next full second on.
func TestReadersShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions, apart = 8, 10 * time.Millisecond
		l := &logs{brokers: brokers{n: partitions, one: true}}
		ctx, stop := context.WithCancel(t.Context())
		f := newTestFetcher(ctx, l)
		var readers sync.WaitGroup
		for p := range partitions {
			readers.Go(func() {
				time.Sleep(time.Duration(p) * apart)
				for ctx.Err() == nil {
					if a := f.fetch(p, int64(p), time.Time{}); a.highWatermark != int64(p) && ctx.Err() == nil {
						t.Errorf("partition %d: mark %d, %v", p, a.highWatermark, a.err)
					}
				}
			})
		}
		time.Sleep(partitions*apart + maxFetchWait)
		synctest.Wait()
		before := l.requests()
		time.Sleep(10 * maxFetchWait)
		synctest.Wait()
		if n := l.requests() - before; before != partitions+1 || n > 11 {
			t.Errorf("%d requests until they met, want 9; then %d in ten seconds, want one each", before, n)
		}
		stop()
		readers.Wait()
	})
}

// Each broker is asked for the partitions that it leads, and each reader gets its own partition's answer.
func TestFetchesOfSeveralBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &logs{brokers: brokers{n: 3}, refuse: map[int]kafka.Error{1: kafka.OffsetOutOfRange}, mute: map[int]bool{2: true}}
		f := newTestFetcher(t.Context(), l)
		got := make([]error, 4)
		var readers sync.WaitGroup
		for p := range got {
			readers.Go(func() { got[p] = f.fetch(p, 0, time.Time{}).err })
		}
		readers.Wait()
		if n := l.requests(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		for p, want := range []error{nil, kafka.OffsetOutOfRange, errNotAnswered, kafka.LeaderNotAvailable} {
			if !errors.Is(got[p], want) {
				t.Errorf("partition %d: %v, want %v", p, got[p], want)
			}
		}
	})
}

// Who has made no progress for longest is first in the answer. Others that a full answer leaves out know this.
func TestFullAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &logs{brokers: brokers{n: 3, one: true}, full: true}
		f := newTestFetcher(t.Context(), l)
		got := make([]fetchAnswer, 3)
		var readers sync.WaitGroup
		for p, waited := range []time.Duration{time.Second, time.Minute, 0} {
			readers.Go(func() { got[p] = f.fetch(p, 0, time.Now().Add(-waited)) })
		}
		readers.Wait()
		if diff := cmp.Diff([][]int{{1, 0, 2}}, l.asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
		for p, a := range got {
			if a.err != nil || a.leftOut != (p != 1) {
				t.Errorf("partition %d: left out %v, %v", p, a.leftOut, a.err)
			}
		}
	})
}

// If several readers stall, only one of them makes new connections.
func TestFetcherIsRemadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorldWithTopic(t, pipelinetest.Kafka(t).Addr(), 1)
	f := newFetcher(t.Context(), w.Client, w.topic.Name)
	t.Cleanup(f.close)
	stalled := time.Now()
	for range 3 {
		f.reconnect(stalled)
	}
	if f.client == w.kafka {
		t.Error("the client is the old one")
	}
	if got := w.counter("duetime_stream_readers_remade_total"); got != 1 {
		t.Errorf("made anew %v times, want once", got)
	}
}
