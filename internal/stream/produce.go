package stream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

const (
	produceTries       = 4                     // a topic that was just made has no leader for a moment
	producePause       = 50 * time.Millisecond // before the second try, and twice as long before each further one
	maxBatchBytes      = 512 << 10             // of one partition in one request; a broker takes 1 MiB
	maxRequestBytes    = 8 << 20
	replicationTimeout = callTimeout / 2 // a broker whose replicas are slow answers then, for each partition, and not for none
	overheadBytes      = 128             // of a record beside its key and value, at most
)

// producer sends what comes within a millisecond in one request to each broker, whatever the partitions. The library's own
// writer makes a request of each partition's messages; where few are due at a time that is nearly one of each message, and
// each costs the broker as much as many together. All in-sync replicas acknowledge what it calls taken.
type producer struct {
	client   *kafka.Client
	balancer kafka.Balancer
	parcels  gathering[*parcel]
	narrow   narrow
}

// parcel are the messages of one caller. It is done when all batches that they are in are, whatever becomes of others.
type parcel struct {
	topic    string
	messages []kafka.Message
	errs     []error // per message
	left     atomic.Int32
	done     chan struct{}
}

func (own *parcel) batchDone() {
	if own.left.Add(-1) == 0 {
		close(own.done)
	}
}

// place is where a message goes.
type place struct {
	topic     string
	partition int
}

// batch are the messages of one partition in one request, and whose they are.
type batch struct {
	place
	messages []*kafka.Message
	errs     []*error
	of       []*parcel
	bytes    int
	err      error
}

func (b *batch) add(own *parcel, i, size int) {
	b.messages = append(b.messages, &own.messages[i])
	b.errs = append(b.errs, &own.errs[i])
	b.bytes += size
	if len(b.of) == 0 || b.of[len(b.of)-1] != own {
		b.of = append(b.of, own)
		own.left.Add(1)
	}
}

// halves are two batches of the same messages, in place of b.
func (b *batch) halves() []*batch {
	middle := len(b.messages) / 2
	both := []*batch{
		{place: b.place, messages: b.messages[:middle], errs: b.errs[:middle], of: b.of},
		{place: b.place, messages: b.messages[middle:], errs: b.errs[middle:], of: b.of},
	}
	for _, half := range both {
		for _, m := range half.messages {
			half.bytes += sizeOf(*m)
		}
	}
	for _, own := range b.of {
		own.left.Add(1) // two halves for one batch
	}
	return both
}

// sizeOf is how many bytes a message takes at most.
func sizeOf(m kafka.Message) int {
	n := len(m.Key) + len(m.Value) + overheadBytes
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func newProducer(c *kafka.Client) *producer { return &producer{client: c, balancer: &router{}} }

// write returns when each message was taken or refused, with one error or nil per message. It goes on when its caller has
// gone: none that may be under way is taken back.
func (p *producer) write(ctx context.Context, topic string, messages []kafka.Message) []error {
	own := &parcel{topic: topic, messages: messages, errs: make([]error, len(messages)), done: make(chan struct{})}
	p.parcels.add(own, func(all []*parcel) { p.deliver(ctx, p.pack(ctx, all), 1) })
	<-own.done
	return own.errs
}

// pack sorts messages into batches by their keys. Those of a topic that isn't there are refused.
func (p *producer) pack(ctx context.Context, parcels []*parcel) []*batch {
	var batches []*batch
	open, topics := map[place]*batch{}, map[string][]int{}
	for _, own := range parcels {
		own.left.Store(1) // until it is packed
	}
	for _, own := range parcels {
		if _, known := topics[own.topic]; !known {
			n, err := countPartitions(ctx, p.client, own.topic)
			if err != nil {
				copy(own.errs, same(len(own.errs), err))
				continue
			}
			for i := range n {
				topics[own.topic] = append(topics[own.topic], i)
			}
		}
		takes := p.narrow.of(own.topic)
		for i, m := range own.messages {
			at := place{own.topic, p.balancer.Balance(m, topics[own.topic]...)}
			b, size := open[at], sizeOf(m)
			if takes.refuses(size) {
				own.errs[i] = permanent(kafka.MessageSizeTooLarge)
				continue
			}
			if b == nil || b.bytes+size > takes.maxBatch() {
				b = &batch{place: at}
				open[at] = b
				batches = append(batches, b)
			}
			b.add(own, i, size)
		}
	}
	for _, own := range parcels {
		own.batchDone()
	}
	return batches
}

// deliver makes a request of all batches for one broker, or more where there is too much for one. Those that another try may
// help are sent again, apart from the others.
func (p *producer) deliver(ctx context.Context, batches []*batch, try int) {
	loads, leaderless := p.loads(ctx, batches)
	for _, load := range loads {
		go func() {
			p.request(ctx, load)
			p.conclude(ctx, load, try)
		}()
	}
	p.conclude(ctx, leaderless, try)
}

// conclude ends batches that were taken or refused for good, and sends the others again.
func (p *producer) conclude(ctx context.Context, batches []*batch, try int) {
	var retried []*batch
	for _, b := range batches {
		if errors.Is(b.err, kafka.MessageSizeTooLarge) {
			p.narrow.refused(b)
		}
		if len(b.messages) > 1 && errors.Is(b.err, kafka.MessageSizeTooLarge) {
			go p.deliver(ctx, b.halves(), try) // the topic may take less at once than others, or refuse one message alone
			continue
		}
		if try < produceTries && mayPass(b.err) {
			retried = append(retried, b)
			continue
		}
		if errors.Is(b.err, kafka.MessageSizeTooLarge) {
			b.err = permanent(b.err)
		}
		for _, err := range b.errs {
			*err = b.err
		}
		for _, own := range b.of {
			own.batchDone()
		}
	}
	if len(retried) > 0 {
		time.AfterFunc(producePause<<(try-1), func() { p.deliver(ctx, retried, try+1) })
	}
}

// mayPass reports whether the same batch may be taken a little later.
func mayPass(err error) bool {
	var refused kafka.Error
	return err != nil && (!errors.As(err, &refused) || refused.Temporary())
}

// records are made anew for each request, which reads them to their ends.
func (b *batch) records() []kafka.Record {
	now := time.Now()
	records := make([]kafka.Record, len(b.messages))
	for i, m := range b.messages {
		records[i] = kafka.Record{Time: now, Key: bytesOf(m.Key), Value: bytesOf(m.Value), Headers: m.Headers}
	}
	return records
}

func bytesOf(b []byte) kafka.Bytes {
	if b == nil {
		return nil
	}
	return kafka.NewBytes(b)
}

// loads says what goes together: to one broker, each partition once, and not too much; and which batches have no leader to go
// to.
func (p *producer) loads(ctx context.Context, batches []*batch) (full [][]*batch, leaderless []*batch) {
	led := map[string]map[int]int{}
	filling := map[int]*load{} // by broker
	for _, b := range batches {
		if led[b.topic] == nil {
			led[b.topic], _ = leaders(ctx, p.client, b.topic) // without an answer nobody is
		}
		broker, ok := led[b.topic][b.partition]
		if !ok {
			b.err = kafka.LeaderNotAvailable
			leaderless = append(leaderless, b)
			continue
		}
		l := filling[broker]
		if l == nil || !l.takes(b) {
			if l != nil {
				full = append(full, l.batches)
			}
			l = &load{has: map[place]bool{}}
			filling[broker] = l
		}
		l.add(b)
	}
	for _, l := range filling {
		full = append(full, l.batches)
	}
	return full, leaderless
}

// load is what one request will have.
type load struct {
	batches []*batch
	has     map[place]bool
	bytes   int
}

func (l *load) takes(b *batch) bool {
	return !l.has[b.place] && l.bytes+b.bytes <= maxRequestBytes
}

func (l *load) add(b *batch) {
	l.has[b.place] = true
	l.batches = append(l.batches, b)
	l.bytes += b.bytes
}

// request sends the batches and sets their errors.
func (p *producer) request(ctx context.Context, batches []*batch) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	byTopic, sent := map[string][]*batch{}, map[place]*batch{}
	for _, b := range batches {
		b.err, sent[b.place] = errNotAnswered, b
		byTopic[b.topic] = append(byTopic[b.topic], b)
	}
	req := &produce.Request{Acks: int16(kafka.RequireAll), Timeout: int32(replicationTimeout / time.Millisecond)}
	for topic, of := range byTopic {
		t := produce.RequestTopic{Topic: topic}
		for _, b := range of {
			t.Partitions = append(t.Partitions, produce.RequestPartition{
				Partition: int32(b.partition), //nolint:gosec // at most 10,000
				RecordSet: protocol.RecordSet{Records: kafka.NewRecordReader(b.records()...)},
			})
		}
		req.Topics = append(req.Topics, t)
	}
	answer, err := p.client.Transport.RoundTrip(ctx, p.client.Addr, req)
	res, ours := answer.(*produce.Response)
	if err == nil && !ours {
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
			if b := sent[place{t.Topic, int(partition.Partition)}]; b != nil {
				b.err = refusal(partition)
			}
		}
	}
}

// errNotAnswered is for a batch of which the broker's answer says nothing.
var errNotAnswered = errors.New("the broker's answer lacks the partition")

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
