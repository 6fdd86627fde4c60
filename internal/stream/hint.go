package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxHintBytes = 4 << 10 // a hint within task's limits has at most 1.1 KiB
	hintCapacity = 192     // bytes; the JSON of an ordinary hint is shorter
	maxRawBytes  = 8 << 10 // that are kept of a message that can't be decoded
	maxEpoch     = int64(1) << 53
	maxRunAt     = int64(1)<<41 - 1 // ms; a score is exact up to here
)

var zeroID = []byte(task.ID{}.String())

// wireHint is a hint as JSON in the topic. At is the moment of its publishing in Unix milliseconds, by the publisher's
// estimate of the database's clock: the record's own timestamp is on the broker's clock.
type wireHint struct {
	protocol.Hint
	At int64 `json:"at"`
}

// encodeHint writes the hint of an index entry. An error is permanent.
func encodeHint(e protocol.Entry, epoch int64, now time.Time) ([]byte, error) {
	if e.Err != nil {
		return nil, broker.Permanent(fmt.Errorf("publish undecodable member: %w", e.Err))
	}
	h := hintOf(e, epoch)
	if err := checkHint(h); err != nil {
		return nil, broker.Permanent(fmt.Errorf("publish %s: %w", e.ID, err))
	}
	if err := checkName("queue", e.Queue); err != nil {
		return nil, broker.Permanent(fmt.Errorf("publish %s: %w", e.ID, err))
	}
	return appendHint(make([]byte, 0, hintCapacity), h, now), nil
}

func hintOf(e protocol.Entry, epoch int64) protocol.Hint {
	return protocol.Hint{
		ID: e.ID, Kind: e.Kind, Owner: e.Route(),
		RunAt: e.Score.RunAt().UnixMilli(), Version: e.Score.Version(), Epoch: epoch,
	}
}

// appendHint writes the JSON of a hint; encoding/json takes four times as long.
func appendHint(b []byte, h protocol.Hint, at time.Time) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, h.ID.String()...)
	b = append(b, `","kind":`...)
	b = appendString(b, h.Kind)
	b = append(b, `,"owner":`...)
	b = appendString(b, h.Owner)
	b = append(b, `,"run_at":`...)
	b = strconv.AppendInt(b, h.RunAt, 10)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, h.Version, 10)
	if h.Epoch != 0 {
		b = append(b, `,"epoch":`...)
		b = strconv.AppendInt(b, h.Epoch, 10)
	}
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, at.UnixMilli(), 10)
	return append(b, '}')
}

// appendString writes s as JSON. A text with characters to escape goes through encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// decodeHint reads the JSON of appendHint, and any other JSON of the same fields. Its result is within task's limits.
func decodeHint(b []byte) (h protocol.Hint, at time.Time, err error) {
	if len(b) > maxHintBytes {
		return h, at, fmt.Errorf("hint of more than %d bytes", maxHintBytes)
	}
	if !utf8.Valid(b) {
		return h, at, errors.New("hint is not UTF-8")
	}
	w, scanned := scanHint(b)
	if !scanned {
		w = wireHint{}
		if err := json.Unmarshal(b, &w); err != nil {
			return h, at, fmt.Errorf("hint is not readable: %w", err)
		}
		if w.ID.IsZero() && !bytes.Contains(b, zeroID) { // another program's row may have the zero id
			return h, at, errors.New("hint has no id")
		}
	}
	if err := checkHint(w.Hint); err != nil {
		return h, at, err
	}
	if w.At > 0 && w.At <= maxRunAt {
		at = time.UnixMilli(w.At).UTC()
	}
	return w.Hint, at, nil
}

func checkHint(h protocol.Hint) error {
	switch {
	case h.Kind == "" || len(h.Kind) > task.MaxKind || !utf8.ValidString(h.Kind):
		return fmt.Errorf("hint's kind must be 1 to %d bytes of UTF-8", task.MaxKind)
	case h.RunAt < 0 || h.RunAt > maxRunAt:
		return errors.New("hint's run_at is out of range")
	case h.Version < 0 || h.Version >= protocol.VersionWindow:
		return errors.New("hint's version is out of range")
	case h.Epoch < 0 || h.Epoch > maxEpoch:
		return errors.New("hint's epoch is out of range")
	}
	if err := task.CheckOwner(h.Owner); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	return nil
}

// decodeDeliveries decodes the records of a queue's topic. A message that can't be decoded is delivered with its error.
func decodeDeliveries(records []broker.Record, m *metrics) []protocol.Delivery {
	out := make([]protocol.Delivery, len(records))
	for i, r := range records {
		d := protocol.Delivery{Partition: r.Partition, Offset: r.Offset, Traceparent: r.Header}
		if d.Hint, _, d.Err = decodeHint(r.Value); d.Err != nil {
			d.Raw = r.Value[:min(len(r.Value), maxRawBytes)]
			m.undecodable.WithLabelValues("queue").Inc()
		}
		out[i] = d
	}
	return out
}

const (
	traceHeader         = "traceparent" // the W3C's name of the header
	maxTraceHeaderBytes = 55            // in the only version of the format
)

// traceHeaders returns the headers of all messages of one call: none without a trace.
func traceHeaders(ctx context.Context) []broker.Header {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return []broker.Header{{Key: traceHeader, Value: []byte(carrier.Get(traceHeader))}}
}
