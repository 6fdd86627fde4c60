package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/loop"
)

const (
	stallTime    = 5 * time.Second // without a good answer; then a reader reconnects
	minReadDelay = 100 * time.Millisecond
	maxReadDelay = time.Second
)

// errNothingServed says that the broker returned no record although the log has records at the offset.
var errNothingServed = errors.New("no record is served although the log goes on")

// reader reads one partition during a session and puts the records into the session's inbox. Each fetch ends, so none can
// hang forever. A reader that asks and gets no good answer for five seconds makes the session's fetcher reconnect, with a
// new view of the cluster. While the inbox is full, the reader doesn't ask; that is no stall.
type reader struct {
	c         *Client
	fetcher   *fetcher
	partition int
	offset    int64 // of the next record; kafka.FirstOffset until it is known
	inbox     *inbox
	queue     int // of the inbox
	log       *slog.Logger
	progress  time.Time // of the last answer with records or at the log's end; or of the last reconnect
	stalls    int       // reconnects since then
}

func (r *reader) run(ctx context.Context) {
	r.progress = time.Now()
	delays := backoff.ExponentialBackOff{InitialInterval: minReadDelay, MaxInterval: maxReadDelay, Multiplier: 2}
	for {
		asked := time.Now()
		if r.inbox.awaitRoom(ctx, r.queue) != nil {
			return
		}
		r.progress = r.progress.Add(time.Since(asked)) // waiting for room is no stall
		err := r.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			delays.Reset()
			continue
		}
		r.handle(ctx, err)
		loop.Sleep(ctx, delays.NextBackOff())
	}
}

// fetch asks once for the records at the offset. An error means that it got none.
func (r *reader) fetch(ctx context.Context) error {
	if r.offset < 0 {
		first, err := r.fetcher.firstOffset(ctx, r.partition)
		if err != nil {
			return err
		}
		r.offset = first
	}
	answer := r.fetcher.fetch(r.partition, r.offset, r.progress)
	if answer.err != nil {
		return fmt.Errorf("fetch offset %d: %w", r.offset, answer.err)
	}
	records, err := r.c.cfg.readBatches(answer.batches, r.partition, r.offset)
	if err != nil && len(records) == 0 {
		return fmt.Errorf("read records at offset %d: %w", r.offset, err)
	}
	if len(records) == 0 && r.offset < answer.highWatermark {
		if answer.leftOut {
			return nil // it has made no progress, so it comes earlier in the next request
		}
		return errNothingServed
	}
	if len(records) > 0 {
		r.offset = records[len(records)-1].Offset + 1
		r.inbox.put(r.queue, records)
	}
	r.progress, r.stalls = time.Now(), 0
	return nil
}

// handle acts on an error that waiting alone would not fix.
func (r *reader) handle(ctx context.Context, err error) {
	switch {
	case errors.Is(err, kafka.OffsetOutOfRange):
		// The log was wiped or its records expired. Repeated records are harmless, so the reader begins at the log's start.
		r.log.Warn("offset is out of range, reading from the log's start", "offset", r.offset)
		r.offset = kafka.FirstOffset
		return
	case errors.Is(err, kafka.UnknownTopicOrPartition):
		err = errors.Join(err, r.c.ensureThrottled(ctx))
	}
	if time.Since(r.progress) < stallTime {
		return
	}
	r.c.stalls.Warn(r.log, time.Now(), "partition makes no progress, making its reader anew", "offset", r.offset, "err", err)
	r.fetcher.reconnect(r.progress)
	r.progress = time.Now()
	r.stalls++
	if errors.Is(err, errNothingServed) && r.stalls > 1 {
		// The entry at this offset is no record (a transaction's marker, for example), and never will be one.
		r.c.metrics.skipped.Inc()
		r.offset++
	}
}

// readRecords copies the records from offset on out of an answer. Earlier records belong to a batch that began before
// offset.
func (c *Config) readRecords(from kafka.RecordReader, partition int, offset int64) ([]Record, error) {
	var out []Record
	for {
		rec, err := from.ReadRecord()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if rec.Offset >= offset {
			value, err := c.readValue(rec.Value)
			if err != nil {
				return out, err
			}
			out = append(out, Record{Partition: partition, Offset: rec.Offset, Value: value, Header: c.keptHeader(rec.Headers)})
		}
		closeBytes(rec.Key)
		closeBytes(rec.Value)
	}
}

func (c *Config) readValue(b kafka.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	value := make([]byte, min(b.Len(), c.MaxValueBytes))
	_, err := io.ReadFull(b, value)
	return value, err
}

func (c *Config) keptHeader(headers []Header) string {
	for _, h := range headers {
		if h.Key == c.KeptHeader && len(h.Value) <= c.MaxHeaderBytes {
			return string(h.Value)
		}
	}
	return ""
}

func closeBytes(b kafka.Bytes) {
	if b != nil {
		_ = b.Close()
	}
}
