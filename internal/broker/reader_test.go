package broker

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// read runs a reader with this client from the log's start until the test ends, or until stop, which returns the reader's
// offset.
func (w *world) read(own *kafka.Transport, client *kafka.Client) (in *inbox, stop func() int64) {
	w.t.Helper()
	in = newInbox(1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	f := newFetcher(ctx, w.Client, w.topic.Name)
	f.client, f.transport = client, own
	r := &reader{c: w.Client, fetcher: f, offset: kafka.FirstOffset, inbox: in, log: w.cfg.Logger}
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	stop = func() int64 { cancel(); <-done; f.close(); return r.offset }
	w.t.Cleanup(func() { stop() })
	return in, stop
}

// next returns the next record's value.
func (w *world) next(in *inbox) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	records, err := in.take(ctx, nil, 1)
	pipelinetest.Must(w.t, err)
	return string(records[0].Value)
}

// A reader's connections hang forever although the broker is well and has records: the reader must reconnect.
func TestHangingReaderIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorldWithTopic(t, pipelinetest.Kafka(t).Addr(), 1)
	pipelinetest.Must(t, errors.Join(w.produce("ann")...))
	deaf, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts; no program answers
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	own, client := w.connect()
	own.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, deaf.Addr().String())
	}
	in, _ := w.read(own, client)
	if got := w.next(in); got != "ann" {
		t.Errorf("got %q", got)
	}
	if got := w.counter("duetime_stream_readers_remade_total"); got != 1 {
		t.Errorf("made anew %v times, want once", got)
	}
}

// The end of another program's transaction is an entry in the log, but no record. If nothing follows it, the reader skips
// it in the end; records after it are read at once.
func TestMarkerInTheLogIsPassed(t *testing.T) {
	t.Parallel()
	w := newWorldWithTopic(t, pipelinetest.Kafka(t).Addr(), 1)
	pipelinetest.Must(t, errors.Join(w.produce("before")...))
	w.mark()
	in, stop := w.read(w.connect())
	pipelinetest.Await(t, "the marker to be passed", func() bool { return w.counter("duetime_stream_skipped_total") == 1 })
	if got, offset := w.next(in), stop(); got != "before" || offset != 2 {
		t.Errorf("got %q and stands at %d, want 2, behind the marker", got, offset)
	}
	pipelinetest.Must(t, errors.Join(w.produce("after")...))
	in, _ = w.read(w.connect())
	for _, want := range []string{"before", "after"} {
		if got := w.next(in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// mark writes the marker of an empty transaction.
func (w *world) mark() {
	w.t.Helper()
	ctx, id, topic := w.t.Context(), w.group, w.topic.Name
	var p *kafka.ProducerSession
	pipelinetest.Await(w.t, "a coordinator", func() bool {
		made, err := w.kafka.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 10_000})
		pipelinetest.Must(w.t, err)
		p = made.Producer
		return made.Error == nil
	})
	added, err := w.kafka.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}},
	})
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, added.Topics[topic][0].Error)
	ended, err := w.kafka.EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, Committed: true,
	})
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, ended.Error)
}

// A log whose batches have one small record each takes about as much memory as its records, not 64 KiB for each batch.
func TestSmallBatchesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	const records, most = 1000, 32 << 10 // bytes for each record; a page of kafka-go takes 64 KiB
	w := newWorldWithTopic(t, pipelinetest.Kafka(t).Addr(), 1)
	for range records {
		pipelinetest.Must(t, errors.Join(w.produce("ann")...))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in, _ := w.read(w.connect())
	for range records {
		w.next(in)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / records; got > most {
		t.Errorf("%d bytes for each record, want at most %d", got, most)
	}
}
