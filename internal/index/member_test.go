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
