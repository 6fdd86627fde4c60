package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// busy is a frame with much to show.
func busy(queues, shards int) frame {
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	f := frame{
		Live: store.Live{
			Now:       now,
			States:    map[task.State]int64{task.Pending: 1234567, task.Done: 9_876_543_210, task.Cancelled: 12, task.Dead: 3},
			Scheduled: 123_456, Fired: 98_765, LagP50: 3 * time.Millisecond, LagP99: 1234 * time.Millisecond, LagMax: 2 * time.Hour,
			Backlog: map[string]store.Waiting{"queue-1": {Tasks: 7, Oldest: now.Add(-5 * time.Second)}},
			Paused:  map[string]time.Time{"queue-0": now.Add(-2 * time.Hour)}, Epochs: map[string]int64{"event": 7},
		},
		namespace: "pets", took: 12 * time.Millisecond, rest: 2 * time.Second, fired: []int64{1, 2, 3, 4, 5, 6, 7, 98_765},
	}
	for i := range queues {
		f.queues = append(f.queues, fmt.Sprint("queue-", i))
	}
	for i := range shards {
		f.shards = append(f.shards, index.Shard{Due: int64(i), Marker: index.MarkerComplete, Epoch: 7})
	}
	return f
}

func TestFrameFitsWhateverItShows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ queues, shards, width, height int }{
		{1, 1, 80, 24}, {3, 16, 80, 24}, {40, 1024, 80, 24}, {40, 16, 60, 20}, {3, 16, 200, 60}, {0, 0, 80, 24},
	} {
		text := busy(c.queues, c.shards).draw(c.width, c.height, plain)
		lines := strings.Split(text, "\n")
		if len(lines) != c.height {
			t.Errorf("%+v: %d lines", c, len(lines))
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > c.width {
				t.Errorf("%+v: %d columns: %s", c, n, line)
			}
		}
	}
	if text := busy(3, 16).draw(80, 12, plain); strings.Contains(text, "QUEUE") {
		t.Errorf("no room for queues:\n%s", text)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	f := busy(9, 4)
	f.shards[2].Marker, f.shards[3].Marker, f.shards[3].Epoch = index.MarkerBuilding, index.MarkerAbsent, 6
	want := ` duetime top  pets                                      2026-11-21 14:00:00 UTC

 fired         9876.5/s  ▁▁▁▁▁▁▁█                           lag p50       3 ms
 scheduled    12345.6/s                                     lag p99      1.2 s
 oldest due       5.0 s                                     lag max     2h0m0s

 pending 1,234,567   done 9,876,543,210   cancelled 12   dead 3

 LEADER   EPOCH  SHARDS AT IT
 event        7  3 of 4
 daemon       0  nobody has ever led

 shards  ▁▃▅█      6 entries, 0 to 3 a shard
 markers ■■◪□      2 of 4 whole

 QUEUE                      DUE NOW     OLDEST
 queue-0                          0          -  paused for 2h
 queue-1                          7      5.0 s
 queue-2                          0          -
 queue-3                          0          -
 and 5 more

 rates and lag of the last 10s, read in 12ms, again each 2s   q ends`
	var got []string
	for line := range strings.SplitSeq(f.draw(80, 23, plain), "\n") {
		got = append(got, strings.TrimRight(line, " "))
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), got); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	f.err = errors.New("mysql is\naway")
	if text := f.draw(80, 24, plain); !strings.HasSuffix(text, "\n figures are old: mysql is; away") {
		t.Errorf("without figures:\n%s", text)
	}
}
