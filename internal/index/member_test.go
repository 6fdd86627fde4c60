package index_test

import (
	"testing"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
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
	diff(t, "entry", e, protocol.Entry{
		Member: index.Encode(a), Score: 1, ID: a.ID, Kind: "k?", Queue: "q?", Owner: "x?y", Subject: "\x1fs\x1f",
	})
}

func TestRowsWithoutNamesAreIndexedAllTheSame(t *testing.T) {
	t.Parallel()
	a := pending("", 5, 1)
	a.Kind, a.Queue, a.Subject = "", "", ""
	e := index.Decode(index.Encode(a), 1)
	diff(t, "entry", e, protocol.Entry{Member: index.Encode(a), Score: 1, ID: a.ID, Kind: "?", Queue: "default", Owner: "?"})
	again := task.Task{ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner}
	diff(t, "member of the entry", index.Encode(again), index.Encode(a))
}

// An order key that a spec gave is in the member, because it decides where the hint goes. All other members are as they were.
func TestMemberHasItsOrderKey(t *testing.T) {
	t.Parallel()
	a := pending("player-1", 5, 1)
	plain := index.Encode(a)
	a.OrderKey = "splayer-1\x1fpet-7"
	diff(t, "ordered by its subject", index.Encode(a), plain)
	a.OrderKey, a.Queue = "kcity-3", "war"
	e := index.Decode(index.Encode(a), 1)
	diff(t, "entry", e, protocol.Entry{
		Member: index.Encode(a), Score: 1, ID: a.ID, Kind: a.Kind, Queue: "war", Owner: a.Owner, Subject: a.Subject, OrderKey: "kcity-3",
	})
	b := task.Task{ID: task.NewID(), Kind: a.Kind, Owner: "player-2", OrderKey: a.OrderKey}
	diff(t, "route of another owner's", protocol.Route(b.Owner, b.OrderKey), e.Route())
	for name, member := range map[string]string{
		"no key":      string(a.ID[:]) + "kind\x1fq\x1e\x1fowner\x1f",
		"another key": string(a.ID[:]) + "kind\x1fq\x1escity\x1fowner\x1f",
	} {
		if got := index.Decode(member, 1); got.Err == nil {
			t.Errorf("%s: decoded %+v", name, got)
		}
	}
}
