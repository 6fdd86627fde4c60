package stream

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// watched is a Kafka with one partition, whose metrics the test reads.
type watched struct {
	*Kafka
	t   *testing.T
	reg *prometheus.Registry
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	reg := prometheus.NewRegistry()
	k, err := NewKafka(Config{
		Namespace: pipelinetest.Namespace(t), Partitions: 1, Brokers: []string{pipelinetest.Kafka(t).Addr()},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: reg,
	})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, k.Close()) })
	pipelinetest.Must(t, k.Ensure(t.Context()))
	return &watched{Kafka: k, t: t, reg: reg}
}

func (w *watched) counter(name string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	pipelinetest.Must(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

func (w *watched) publish(owner string) {
	w.t.Helper()
	e := task.Entry{ID: task.NewID(), Kind: "k", Queue: "default", Owner: owner, Score: 1}
	if errs := w.Publish(w.t.Context(), []task.Entry{e}, 1); errs != nil {
		w.t.Fatal(errs)
	}
}

// read runs a reader with this client from the log's start until the test ends, or until stop, which gives the offset at
// which it stood.
func (w *watched) read(own *kafka.Transport, client *kafka.Client) (in *inbox, stop func() int64) {
	w.t.Helper()
	in = newInbox(1)
	f := &fetcher{k: w.Kafka, topic: w.names.queue("default").topic, client: client, own: own}
	r := &reader{k: w.Kafka, fetcher: f, offset: kafka.FirstOffset, inbox: in, log: w.cfg.Logger}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	stop = func() int64 { cancel(); <-done; f.close(); return r.offset }
	w.t.Cleanup(func() { stop() })
	return in, stop
}

// next returns the owner of the next hint.
func (w *watched) next(in *inbox) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	recs, err := in.take(ctx, nil, 1)
	pipelinetest.Must(w.t, err)
	h, _, err := decodeHint(recs[0].value)
	pipelinetest.Must(w.t, err)
	return h.Owner
}

// A reader's connections hang for good although the broker is well and there is something to be read: it is made anew.
func TestHangingReaderIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.publish("ann")
	deaf, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts in the kernel; nobody answers
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	own, client := w.newClient()
	own.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, deaf.Addr().String())
	}
	in, _ := w.read(own, client)
	if got := w.next(in); got != "ann" {
		t.Errorf("got the hint of %q", got)
	}
	if got := w.counter("duetime_stream_readers_remade_total"); got != 1 {
		t.Errorf("made anew %v times, want once", got)
	}
}

// The end of somebody else's transaction stands in the log as no record of ours. Where nothing comes after it the reader
// passes it in the end; hints behind it are read at once.
func TestMarkerInTheLogIsPassed(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.publish("before")
	w.mark()
	in, stop := w.read(w.newClient())
	pipelinetest.Await(t, "the marker to be passed", func() bool { return w.counter("duetime_stream_skipped_total") == 1 })
	if got, offset := w.next(in), stop(); got != "before" || offset != 2 {
		t.Errorf("got the hint of %q and stands at %d, want 2, behind the marker", got, offset)
	}
	w.publish("after")
	in, _ = w.read(w.newClient())
	for _, want := range []string{"before", "after"} {
		if got := w.next(in); got != want {
			t.Errorf("got the hint of %q, want %q", got, want)
		}
	}
}

// mark writes the marker of a transaction without records.
func (w *watched) mark() {
	w.t.Helper()
	ctx, id, topic := w.t.Context(), w.cfg.Namespace, w.names.queue("default").topic
	var p *kafka.ProducerSession
	pipelinetest.Await(w.t, "a coordinator", func() bool {
		made, err := w.client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 10_000})
		pipelinetest.Must(w.t, err)
		p = made.Producer
		return made.Error == nil
	})
	added, err := w.client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}},
	})
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, added.Topics[topic][0].Error)
	ended, err := w.client.EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, Committed: true,
	})
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, ended.Error)
}
