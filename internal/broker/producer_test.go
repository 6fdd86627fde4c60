package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// brokers are fake brokers. Each leads one partition of any topic, and answers as the test says.
type brokers struct {
	n      int
	one    bool                                 // leads all partitions
	answer func(topic string, broker int) error // a kafka.Error, or an error of the connection

	mu       sync.Mutex
	requests []string
}

func (b *brokers) RoundTrip(_ context.Context, _ net.Addr, r kafka.Request) (kafka.Response, error) {
	switch r := r.(type) {
	case *metadata.Request:
		return b.describe(r), nil
	case *produce.Request:
		return b.take(r)
	default:
		return nil, fmt.Errorf("not asked for: %T", r)
	}
}

func (b *brokers) describe(r *metadata.Request) *metadata.Response {
	res := &metadata.Response{}
	for _, name := range r.TopicNames {
		t := metadata.ResponseTopic{Name: name}
		for i := range int32(b.n) {
			p := metadata.ResponsePartition{PartitionIndex: i, LeaderID: i}
			if b.one {
				p.LeaderID = 0
			}
			t.Partitions = append(t.Partitions, p)
		}
		res.Topics = append(res.Topics, t)
	}
	for i := range int32(b.n) {
		res.Brokers = append(res.Brokers, metadata.ResponseBroker{NodeID: i, Host: "127.0.0.1", Port: 1})
	}
	return res
}

func (b *brokers) take(r *produce.Request) (*produce.Response, error) {
	res := &produce.Response{}
	what := ""
	for _, t := range r.Topics {
		out := produce.ResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			what += fmt.Sprintf(" %s/%d", t.Topic, p.Partition)
			err := b.answer(t.Topic, int(p.Partition))
			var code kafka.Error
			if err != nil && !errors.As(err, &code) {
				return nil, err
			}
			out.Partitions = append(out.Partitions, produce.ResponsePartition{Partition: p.Partition, ErrorCode: int16(code)})
		}
		res.Topics = append(res.Topics, out)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, what)
	return res, nil
}

// messages returns ten messages for each of these partitions, of n in all.
func messages(of int, partitions ...int) (out []Message) {
	count := map[int]int{}
	for key := byte(0); len(out) < 10*len(partitions); key++ {
		if at := byLastByte([]byte{key}, of); slices.Contains(partitions, at) && count[at] < 10 {
			count[at]++
			out = append(out, Message{Key: []byte{key}, Value: []byte("v")})
		}
	}
	return out
}

// A caller that shares a request with refused messages, or comes while a broker is away, waits for neither.
func TestNobodyWaitsForAnothersTries(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection refused")
	for name, answer := range map[string]func(topic string, broker int) error{
		"topic": func(topic string, _ int) error {
			if topic == "sick" {
				return kafka.NotEnoughReplicas
			}
			return nil
		},
		"broker": func(_ string, broker int) error {
			if broker == 0 {
				return gone
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &brokers{n: 2, answer: answer}
				p := newProducer(&kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: b}, byLastByte)
				began := time.Now()
				took := map[string]time.Duration{}
				errs := map[string]error{}
				var mu sync.Mutex
				var all sync.WaitGroup
				for topic, partitions := range map[string][]int{"sick": {0, 1}, "well": {1}} {
					all.Go(func() {
						err := errors.Join(p.write(topic, messages(2, partitions...))...)
						mu.Lock()
						defer mu.Unlock()
						took[topic], errs[topic] = time.Since(began), err
					})
				}
				all.Wait()
				if errs["well"] != nil || took["well"] != gatherTime {
					t.Errorf("the well one: %v after %v, want it taken after %v", errs["well"], took["well"], gatherTime)
				}
				if want := gatherTime + 7*produceRetryDelay; errs["sick"] == nil || took["sick"] != want {
					t.Errorf("the sick one: %v after %v, want four tries in %v", errs["sick"], took["sick"], want)
				}
			})
		})
	}
}

// Messages that come together make one request to each broker, and only transient failures are retried.
func TestRequestsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed := false
		b := &brokers{n: 1, answer: func(topic string, _ int) error {
			if topic == "b" && !failed {
				failed = true
				return kafka.NotLeaderForPartition
			}
			return nil
		}}
		p := newProducer(&kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: b}, byLastByte)
		var all sync.WaitGroup
		for range 10 {
			for _, topic := range []string{"a", "b"} {
				all.Go(func() {
					if err := errors.Join(p.write(topic, messages(1, 0))...); err != nil {
						t.Errorf("write to %s: %v", topic, err)
					}
				})
			}
		}
		all.Wait()
		if len(b.requests) != 2 || b.requests[1] != " b/0" {
			t.Errorf("requests of %v, want both topics in one, and the refused one again", b.requests)
		}
		if first := b.requests[0]; first != " a/0 b/0" && first != " b/0 a/0" {
			t.Errorf("the first request had%s, want each topic once", first)
		}
	})
}

// For a while a topic doesn't get the sizes again that it refused: each such request costs Kafka as much as a good one.
func TestTooLargeIsAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &brokers{n: 1, answer: func(string, int) error { return kafka.MessageSizeTooLarge }}
		p := newProducer(&kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: b}, byLastByte)
		refused := func() (requests int) {
			before := len(b.requests)
			for _, err := range p.write("narrow", messages(1, 0)) {
				if !IsPermanent(err) || !errors.Is(err, kafka.MessageSizeTooLarge) {
					t.Errorf("got %v, want it refused for good", err)
				}
			}
			return len(b.requests) - before
		}
		if n := refused(); n != 19 { // ten messages, and the batches that were halved into them
			t.Errorf("%d requests until it is known, want 19", n)
		}
		if n := refused(); n != 0 {
			t.Errorf("%d requests once it is known, want none", n)
		}
		time.Sleep(sizeLimitTTL + time.Second)
		if n := refused(); n == 0 {
			t.Error("never asked again")
		}
		time.Sleep(sizeLimitTTL + time.Second)
		b.answer = func(string, int) error { return nil }
		if err := errors.Join(p.write("narrow", messages(1, 0))...); err != nil {
			t.Errorf("%v from a topic that was widened", err)
		}
	})
}
