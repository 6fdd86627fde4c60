package stream

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const someID = "01890000-0000-7000-8000-000000000000"

// FuzzDecodeHint decodes any message. The result must be a hint within task's limits that encodes to the same hint, or an
// error.
func FuzzDecodeHint(f *testing.F) {
	f.Add(appendHint(nil, hint("player"), published))
	f.Add([]byte(`{"id":"` + someID + `","kind":"k","owner":"o","run_at":1,"version":1}`))
	f.Add([]byte(`{"ID":"` + someID + `","kind":"\u0000","owner":"\ud83d\ude00","run_at":2199023255551,"version":4095,"epoch":9007199254740992,"at":-1}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if w, ours := scanHint(raw); ours && utf8.Valid(raw) {
			var want wireHint
			if err := json.Unmarshal(raw, &want); err != nil || w != want {
				t.Fatalf("%s scanned as %+v, want %+v, %v", raw, w, want, err)
			}
		}
		h, at, err := decodeHint(raw)
		if err != nil {
			return
		}
		inLimits := len(raw) <= maxHintBytes && len(h.Kind) >= 1 && len(h.Kind) <= task.MaxKind &&
			task.CheckOwner(h.Owner) == nil && h.Version >= 0 && h.Version < protocol.VersionWindow &&
			h.RunAt >= 0 && h.RunAt < 1<<41 && h.Epoch >= 0 && h.Epoch <= 1<<53 &&
			(at.IsZero() || at.After(time.UnixMilli(0)) && at.UnixMilli() < 1<<41) // the daemon judges a backlog by this moment
		if !inLimits {
			t.Fatalf("decoded outside the limits: %+v of %d bytes", h, len(raw))
		}
		again, atAgain, err := decodeHint(appendHint(nil, h, at))
		if err != nil || again != h || !atAgain.Equal(at) {
			t.Fatalf("%+v at %v came back as %+v at %v: %v", h, at, again, atAgain, err)
		}
	})
}

// FuzzPublishHint encodes any entry that the index may hold. Encoding must fail permanently, or a worker must decode the
// same hint, and the message must be JSON.
func FuzzPublishHint(f *testing.F) {
	f.Add("pet.meal_finished", "player", "default", 1_800_000_000_000.25, int64(3))
	f.Add("\"\\", "\u2028<&>\x7f", "a-b", float64(1<<41-1), int64(1<<53))
	f.Add("\xff", "\xff", "a b", -1.5, int64(-1))
	f.Add(strings.Repeat("\x01", task.MaxKind), strings.Repeat("日", 21), "q", 0.0, int64(0))
	f.Fuzz(func(t *testing.T, kind, owner, queue string, score float64, epoch int64) {
		e := protocol.Entry{ID: task.NewID(), Kind: kind, Owner: owner, Queue: queue, Score: protocol.Score(score)}
		value, err := encodeHint(e, epoch, published)
		if err != nil {
			if !broker.IsPermanent(err) {
				t.Fatalf("%+v is refused for now: %v", e, err)
			}
			return
		}
		got, at, err := decodeHint(value)
		if err != nil {
			t.Fatalf("%+v was published as %s: %v", e, value, err)
		}
		want := protocol.Hint{ID: e.ID, Kind: kind, Owner: owner, RunAt: e.Score.RunAt().UnixMilli(), Version: e.Score.Version(), Epoch: epoch}
		if diff := cmp.Diff(want, got); diff != "" || !at.Equal(published) {
			t.Fatalf("%s came back at %v as (-want +got):\n%s", value, at, diff)
		}
	})
}

// FuzzDecodeCompensation decodes any message. The result must be a compensation within the limits that encodes to the
// same compensation, or an error and an empty compensation.
func FuzzDecodeCompensation(f *testing.F) {
	f.Add([]byte(`{"ids":["` + someID + `"],"rebuild":[1]}`))
	f.Add([]byte(`{"rebuild":[1048576,0,0]}`))
	f.Add([]byte(`{"rebuild":[-1]}`))
	f.Add([]byte(`{"ids":["` + strings.Repeat(someID+`","`, maxCompensationItems-1) + someID + `"]}`))
	f.Add([]byte(`{"ids":null,"rebuild":[` + strings.Repeat("1,", maxCompensationItems) + `1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeCompensation(raw)
		n := len(c.IDs) + len(c.Rebuild)
		if err != nil {
			if n > 0 {
				t.Fatalf("refused, and yet %+v: %v", c, err)
			}
			return
		}
		outside := func(shard int) bool { return shard < 0 || shard > 1<<20 }
		if len(raw) > maxCompensationBytes || n == 0 || len(c.IDs) > maxCompensationItems || len(c.Rebuild) > maxCompensationItems || slices.ContainsFunc(c.Rebuild, outside) {
			t.Fatalf("decoded outside the limits: %d ids, shards %v, of %d bytes", len(c.IDs), c.Rebuild, len(raw))
		}
		var again protocol.Compensation
		messages, err := encodeCompensation(c)
		for _, m := range messages {
			part, failed := decodeCompensation(m)
			if failed != nil || len(m) > maxCompensationBytes {
				t.Fatalf("%d bytes are written that can't be read: %v", len(m), failed)
			}
			again.IDs, again.Rebuild = append(again.IDs, part.IDs...), append(again.Rebuild, part.Rebuild...)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("sent again: %v (-want +got):\n%s", err, diff)
		}
	})
}

// FuzzDeadLetter encodes any dead letter: it must fit, and each text that was cut must be a prefix.
func FuzzDeadLetter(f *testing.F) {
	f.Add("pet.meal_finished", "player", "default", "cause", []byte("raw"), uint16(1))
	f.Add("\x01", "\xff", "日", "\xed\xa0\x80", []byte{0xff}, uint16(8000))
	f.Add("", "", "", "", []byte(nil), uint16(0))
	f.Fuzz(func(t *testing.T, kind, owner, queue, cause string, raw []byte, times uint16) {
		n := int(times % 8192)
		d := protocol.DeadLetter{
			ID: task.NewID(), Kind: kind, Owner: owner, Queue: queue, Attempt: n,
			Error: strings.Repeat(cause, 1+n/(1+len(cause))), Raw: bytes.Repeat(raw, 1+n/(1+len(raw))),
		}
		b, err := encodeDeadLetter(d)
		if err != nil || len(b) > maxLetterBytes {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		var got protocol.DeadLetter
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		begins := func(whole, part string) bool { return strings.HasPrefix(strings.ToValidUTF8(whole, ""), part) }
		if got.ID != d.ID || got.Attempt != n || !begins(kind, got.Kind) || !begins(owner, got.Owner) || !begins(queue, got.Queue) ||
			!begins(d.Error, got.Error) || !bytes.HasPrefix(d.Raw, got.Raw) {
			t.Fatalf("%+v came back as %+v", d, got)
		}
		if len(b) < maxLetterBytes/8 && (len(got.Error) < len(strings.ToValidUTF8(d.Error, "")) || len(got.Raw) < len(d.Raw)) {
			t.Fatalf("cut to %d bytes: error %d of %d, raw %d of %d", len(b), len(got.Error), len(d.Error), len(got.Raw), len(d.Raw))
		}
	})
}
