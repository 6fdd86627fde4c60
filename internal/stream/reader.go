package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
)

const stallAfter = 5 * time.Second

// reader reads one partition for the length of a session and leaves the records in the session's inbox. Each fetch ends, so
// none can hang for ever; a reader that gets no good answer for five seconds although it asks has the session's fetcher take
// a new connection pool with a new view of the cluster. While its inbox is full it does not ask, which is no stall.
type reader struct {
	k         *Kafka
	fetcher   *fetcher
	partition int
	offset    int64 // of the next record; kafka.FirstOffset until it is known
	inbox     *inbox
	queue     int
	log       *slog.Logger
	good      time.Time // of the last answer that moved on, or said that there is nothing; or of the last remedy
	stalls    int       // remedies since then
}

func (r *reader) run(ctx context.Context) {
	r.good = time.Now()
	pause := firstBackoff
	for {
		asked := time.Now()
		if r.inbox.awaitRoom(ctx, r.queue) != nil {
			return
		}
		r.good = r.good.Add(time.Since(asked)) // waiting for room is no stall
		err := r.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = firstBackoff
			continue
		}
		r.remedy(ctx, err)
		_ = sleep(ctx, pause)
		pause = min(2*pause, time.Second)
	}
}

// fetch asks once for what comes at the offset. An error means that nothing was gained.
func (r *reader) fetch(ctx context.Context) error {
	if r.offset < 0 {
		first, err := r.fetcher.firstOffset(ctx, r.partition)
		if err != nil {
			return err
		}
		r.offset = first
	}
	records, highWatermark, err := r.fetcher.fetch(ctx, r.partition, r.offset)
	if err != nil {
		return fmt.Errorf("fetch offset %d: %w", r.offset, err)
	}
	recs, err := readRecords(records, r.partition, r.offset)
	if err != nil && len(recs) == 0 {
		return fmt.Errorf("read records at offset %d: %w", r.offset, err)
	}
	if len(recs) == 0 && r.offset < highWatermark {
		return errNothingServed
	}
	if len(recs) > 0 {
		r.offset = recs[len(recs)-1].offset + 1
		r.inbox.put(r.queue, recs)
	}
	r.good, r.stalls = time.Now(), 0
	return nil
}

// errNothingServed says that records should be there and the broker gives none.
var errNothingServed = errors.New("no record is served although the log goes on")

// remedy does something about an error where waiting alone would not help.
func (r *reader) remedy(ctx context.Context, err error) {
	switch {
	case errors.Is(err, kafka.OffsetOutOfRange):
		// The log was wiped or its records expired. Hints seen twice are harmless, so its start it is.
		r.log.Warn("offset is out of range, reading from the log's start", "offset", r.offset)
		r.offset = kafka.FirstOffset
		return
	case errors.Is(err, kafka.UnknownTopicOrPartition):
		err = errors.Join(err, r.k.ensureSoon(ctx))
	}
	if time.Since(r.good) < stallAfter {
		return
	}
	r.log.Warn("partition makes no progress, making its reader anew", "offset", r.offset, "err", err)
	r.fetcher.remake(r.good)
	r.good = time.Now()
	r.stalls++
	if errors.Is(err, errNothingServed) && r.stalls > 1 {
		// What stands there is no record (a transaction's marker, say), and never will be one.
		r.k.metrics.skipped.Inc()
		r.offset++
	}
}

// readRecords copies the records from offset on out of an answer; what comes before belongs to a batch that began
// earlier. Of an oversized value only so much is kept that decoding refuses it.
func readRecords(records kafka.RecordReader, partition int, offset int64) ([]record, error) {
	var out []record
	for {
		rec, err := records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if rec.Offset >= offset {
			value, err := readValue(rec.Value)
			if err != nil {
				return out, err
			}
			out = append(out, record{partition: partition, offset: rec.Offset, value: value, traceparent: traceparentIn(rec.Headers)})
		}
		closeBytes(rec.Key)
		closeBytes(rec.Value)
	}
}

func readValue(b kafka.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	value := make([]byte, min(b.Len(), maxValue+1))
	_, err := io.ReadFull(b, value)
	return value, err
}

func closeBytes(b kafka.Bytes) {
	if b != nil {
		_ = b.Close()
	}
}
