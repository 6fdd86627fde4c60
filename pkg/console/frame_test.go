package console

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
)

func TestQueuesWithSomethingToSayComeFirst(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	got := queuesOf([]string{"b", "a", "idle"}, store.Live{
		Due:      map[string]store.DueTasks{"a": {Tasks: 1, Oldest: now}, "b": {Tasks: 7, Cut: true, Oldest: now}, "stray": {Tasks: 2, Oldest: now}},
		Whole:    true,
		Paused:   map[string]time.Time{"stopped": now, "a": now},
		Degraded: map[string]int{"b": 2},
		Processes: []store.Process{
			{Role: "worker", Detail: store.ProcessDetail{Queues: []string{"a", "b"}}},
			{Role: "embedded", Detail: store.ProcessDetail{Queues: []string{"b"}}},
			{Role: "event"},
		},
	})
	diff(t, "queues", []Queue{
		{"a", 1, false, new(int64(1_000_000)), new(int64(1_000_000)), 0, 1},
		{"stopped", 0, false, nil, new(int64(1_000_000)), 0, 0},
		{"b", 7, true, new(int64(1_000_000)), nil, 2, 2},
		{"stray", 2, false, new(int64(1_000_000)), nil, 0, 0},
		{"idle", 0, false, nil, nil, 0, 0},
	}, got)
	diff(t, "a queue that was not counted", []Queue{{Queue: "idle", Cut: true}}, queuesOf([]string{"idle"}, store.Live{}))
}

func TestLeadersSayHowManyShardsFollow(t *testing.T) {
	t.Parallel()
	alive := []store.Process{
		{Role: "event", Host: "old", Detail: store.ProcessDetail{Epoch: 6}},
		{Role: "event", Host: "new", Detail: store.ProcessDetail{Epoch: 7}},
		{Role: "event", Host: "queued"},
		{Role: "daemon", Host: "queued"},
	}
	got := leadersOf(map[string]int64{"event": 7}, alive, []indexShard{{Epoch: 7}, {Epoch: 7}, {Epoch: 6}, {Epoch: 7}})
	diff(t, "leaders", []Leader{{Name: "event", Epoch: 7, Shards: new(3), Of: new(4), Host: "new"}, {Name: "daemon"}}, got)
}
