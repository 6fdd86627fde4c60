package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/task"
)

const (
	maxHint    = 4 << 10  // bytes; a hint within task's limits has at most 1.1 KiB
	maxDead    = 16 << 10 // bytes of one dead letter
	maxIDs     = 1000     // ids, or shards, in one compensation
	chunkIDs   = 500      // ids written into one message
	maxEpoch   = int64(1) << 53
	maxRunAt   = int64(1)<<41 - 1 // a score is exact up to here
	deadErrLen = 4 << 10
)

var zeroID = []byte(task.ID{}.String())

// wireHint is a hint as the topic carries it. At is when it was published, by the publisher's view of the database's
// clock, in Unix milliseconds: the record's own timestamp would be on yet another clock.
type wireHint struct {
	task.Hint
	At int64 `json:"at"`
}

// hintOf makes the hint of an index entry.
func hintOf(e task.Entry, epoch int64) task.Hint {
	return task.Hint{
		ID: e.ID, Kind: e.Kind, Owner: e.Owner,
		RunAt: e.Score.RunAt().UnixMilli(), Version: e.Score.Version(), Epoch: epoch,
	}
}

// appendHint writes the JSON of a hint; encoding/json would take four times as long.
func appendHint(b []byte, h task.Hint, at time.Time) []byte {
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

// appendString writes s as JSON; only what has nothing to escape takes the short way.
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

// decodeHint reads what appendHint wrote, and any JSON of the same fields. What it returns lies within task's limits.
func decodeHint(b []byte) (h task.Hint, at time.Time, err error) {
	if len(b) > maxHint {
		return h, at, fmt.Errorf("hint of more than %d bytes", maxHint)
	}
	if !utf8.Valid(b) {
		return h, at, errors.New("hint is not UTF-8")
	}
	w, ours := scanHint(b)
	if !ours {
		w = wireHint{}
		if err := json.Unmarshal(b, &w); err != nil {
			return h, at, fmt.Errorf("hint is not readable: %w", err)
		}
		if w.ID.IsZero() && !bytes.Contains(b, zeroID) { // another program's row may have it
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

func checkHint(h task.Hint) error {
	switch {
	case h.Kind == "" || len(h.Kind) > task.MaxKind || !utf8.ValidString(h.Kind):
		return fmt.Errorf("hint's kind must be 1 to %d bytes of UTF-8", task.MaxKind)
	case h.RunAt < 0 || h.RunAt > maxRunAt:
		return errors.New("hint's run_at is out of range")
	case h.Version < 0 || h.Version >= task.VersionWindow:
		return errors.New("hint's version is out of range")
	case h.Epoch < 0 || h.Epoch > maxEpoch:
		return errors.New("hint's epoch is out of range")
	}
	if err := task.CheckOwner(h.Owner); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	return nil
}

// encodeCompensation splits what is asked into messages of bounded size.
func encodeCompensation(c task.Compensation) ([][]byte, error) {
	var out [][]byte
	for len(c.IDs) > 0 || len(c.Rebuild) > 0 {
		n, r := min(len(c.IDs), chunkIDs), min(len(c.Rebuild), chunkIDs)
		b, err := json.Marshal(task.Compensation{IDs: c.IDs[:n], Rebuild: c.Rebuild[:r]})
		if err != nil {
			return nil, fmt.Errorf("encode compensation: %w", err)
		}
		out = append(out, b)
		c.IDs, c.Rebuild = c.IDs[n:], c.Rebuild[r:]
	}
	return out, nil
}

func decodeCompensation(b []byte) (c task.Compensation, err error) {
	if len(b) > maxValue {
		return c, fmt.Errorf("compensation of more than %d bytes", maxValue)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return task.Compensation{}, fmt.Errorf("compensation is not readable: %w", err)
	}
	if len(c.IDs) > maxIDs || len(c.Rebuild) > maxIDs || len(c.IDs)+len(c.Rebuild) == 0 {
		return task.Compensation{}, fmt.Errorf("compensation must name 1 to %d ids or shards", maxIDs)
	}
	for _, s := range c.Rebuild {
		if s < 0 || s > 1<<20 {
			return task.Compensation{}, errors.New("compensation's shard is out of range")
		}
	}
	return c, nil
}

// encodeDead writes a dead letter of at most maxDead bytes, cutting its texts and then what is left of the raw message.
func encodeDead(d task.DeadLetter) ([]byte, error) {
	d.Kind, d.Owner, d.Queue = cut(d.Kind, maxName), cut(d.Owner, maxName), cut(d.Queue, maxName)
	d.Error = cut(d.Error, deadErrLen)
	d.Raw = d.Raw[:min(len(d.Raw), maxRaw)]
	for {
		b, err := json.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("encode dead letter %s: %w", d.ID, err)
		}
		if len(b) <= maxDead {
			return b, nil
		}
		// Escapes can make a text six times as long as it is: halve until it fits.
		d.Error, d.Raw = cut(d.Error, len(d.Error)/2), d.Raw[:len(d.Raw)/2]
	}
}

// cut shortens s to at most n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

// deadKey keeps an owner's dead letters in one partition; without an owner any will do.
func deadKey(d task.DeadLetter) []byte {
	if d.Owner == "" {
		return nil
	}
	return []byte(cut(d.Owner, maxName))
}
