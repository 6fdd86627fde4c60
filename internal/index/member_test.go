package index_test

import (
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/pkg/task"
)

func TestMemberIsSmallAndStable(t *testing.T) {
	t.Parallel()
	a := pending("player-1", 5, 1)
	got := index.Encode(a)
	diff(t, "member", got, string(a.ID[:])+"pet.meal_finished\x1f\x1fplayer-1\x1fpet-7")
	for name, other := range map[string]task.Task{
		"moved": moved(a, 99, 7), "ended": ended(a, 2),
	} {
		diff(t, name, index.Encode(other), got)
	}
}

func TestForeignRowsAreIndexedAllTheSame(t *testing.T) {
	t.Parallel()
	a := pending("x\x1fy", 5, 1)
	a.Kind, a.Queue, a.Subject = "k\x1f", "q\x1f", "\x1fs\x1f"
	e := index.Decode(index.Encode(a), 1)
	diff(t, "entry", e, task.Entry{
		Member: index.Encode(a), Score: 1, ID: a.ID, Kind: "k?", Queue: "q?", Owner: "x?y", Subject: "\x1fs\x1f",
	})
}

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

func FuzzMemberFromRow(f *testing.F) {
	f.Add("pet.meal", "default", "o", "s")
	f.Add("k\x1f", "", "\x1f", "\x1f\x1f")
	f.Fuzz(func(t *testing.T, kind, queue, owner, subject string) {
		if kind == "" || owner == "" || len(kind)+len(queue)+len(owner)+len(subject) > 1024 {
			return
		}
		e := index.Decode(index.Encode(task.Task{ID: task.NewID(), Kind: kind, Queue: queue, Owner: owner, Subject: subject}), 1)
		if e.Err != nil || e.Subject != subject {
			t.Fatalf("%q %q %q %q: %+v", kind, queue, owner, subject, e)
		}
	})
}
