package index_test

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// FuzzMember decodes any member of a set: our members are encoded to the same bytes, others have no names.
func FuzzMember(f *testing.F) {
	f.Add("")
	f.Add("junk")
	f.Add(strings.Repeat("\x1f", 40))
	f.Add(index.Encode(pending("o", 1, 1)))
	f.Add(strings.Repeat("i", 16) + "k\x1fdefault\x1fo\x1f")
	f.Add(strings.Repeat("i", 16) + "k\x1f\x1fo\x1f" + strings.Repeat("s", 5000))
	f.Fuzz(func(t *testing.T, member string) {
		e := index.Decode(member, 1.5)
		if e.Member != member || e.Score != 1.5 {
			t.Fatalf("%q came back as %q at %v", member, e.Member, e.Score)
		}
		if e.Err != nil {
			if e.Kind+e.Queue+e.Owner+e.Subject != "" || !e.ID.IsZero() {
				t.Fatalf("undecodable, and yet %+v", e)
			}
			return
		}
		again := index.Encode(task.Task{ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner, Subject: e.Subject})
		if again != member {
			t.Fatalf("%q decodes to %+v, which is %q", member, e, again)
		}
	})
}

// FuzzMemberFromRow encodes any row that another program may insert: the decoded member names the same task and queue.
func FuzzMemberFromRow(f *testing.F) {
	f.Add("pet.meal", "default", "o", "s")
	f.Add("k\x1f", "", "\x1f", "\x1f\x1f")
	f.Fuzz(func(t *testing.T, kind, queue, owner, subject string) {
		if kind == "" || owner == "" || len(kind)+len(queue)+len(owner)+len(subject) > 1024 {
			return
		}
		row := task.Task{ID: task.NewID(), Kind: kind, Queue: queue, Owner: owner, Subject: subject}
		member := index.Encode(row)
		part := func(s string) string { return strings.ReplaceAll(s, "\x1f", "?") }
		diff(t, "entry", index.Decode(member, 1), protocol.Entry{
			Member: member, Score: 1, ID: row.ID, Kind: part(kind), Queue: cmp.Or(part(queue), "default"), Owner: part(owner), Subject: subject,
		})
	})
}

// FuzzWake publishes any message as a wake-up: a time wakes only its shard, anything else wakes nobody, and later
// wake-ups arrive.
func FuzzWake(f *testing.F) {
	x := open(f, index.Config{Addrs: []string{worldtest.Memory(f).Addr()}})
	const shard, last = 1, 3
	received := wakes(f, x, 2)
	for _, payload := range []string{"1790000000000", "-9223372036854775808", "9223372036854775808", "1e3", " 1", "+1", "", "\x00", "0x1"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		var want []wake
		switch ms, err := strconv.ParseInt(payload, 10, 64); {
		case err == nil && ms == last:
			return
		case err == nil:
			want = append(want, wake{shard, time.UnixMilli(ms).UTC()})
		}
		for _, message := range []string{payload, strconv.Itoa(last)} {
			pipelinetest.Must(t, x.Client().Publish(t.Context(), x.Key(shard, "wake"), message).Err())
		}
		var got []wake
		for w := range received {
			if w.At.UnixMilli() == last {
				break
			}
			got = append(got, w)
		}
		diff(t, payload, got, want)
	})
}
