package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/pkg/console"
)

// busy is a picture with many figures.
func busy(queues, shards int) picture {
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC).UnixMilli()
	p := picture{
		Frame: console.Frame{
			NowMs:  now,
			States: map[string]int64{"pending": 12_345, "done": 100_000, "cancelled": 12, "dead": 3}, MaxState: 100_000,
			WindowMs: 10_000, Scheduled: 123_456, Fired: 98_765, LagMs: console.Lag{P50: 3, P99: 1234, Max: 2 * 3600 * 1000},
			Leaders:   []console.Leader{{Name: "event", Epoch: 7, Shards: new(shards), Of: new(shards), Host: "event-7f9c"}, {Name: "daemon"}},
			Namespace: "pets", TookMs: 12,
		},
		interval: 2 * time.Second, fired: []int64{1, 2, 3, 4, 5, 6, 7, 98_765},
	}
	for i := range queues {
		p.Queues = append(p.Queues, console.Queue{Queue: fmt.Sprint("queue-", i), Workers: 1})
	}
	if queues > 1 {
		p.Queues[0].PausedMs = new(now - 2*3600*1000)
		p.Queues[1].Due, p.Queues[1].OldestMs = 7, new(now-5000)
		p.Queues[2].Due, p.Queues[2].Cut = 20_000, true
	}
	for i := range shards {
		p.Shards = append(p.Shards, console.Shard{Due: int64(i), Marker: console.MarkerComplete, Epoch: 7})
	}
	return p
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
	f.Shards[2].Marker, f.Shards[3].Marker, f.Leaders[0].Shards = console.MarkerBuilding, console.MarkerAbsent, new(3)
	want := ` duetime top  pets                                      2026-11-21 14:00:00 UTC

 fired         9876.5/s  ▁▁▁▁▁▁▁█                           lag p50       3 ms
 scheduled    12345.6/s                                     lag p99      1.2 s
 oldest due       5.0 s                                     lag max     2h0m0s

 pending 12,345   done 100,000+   cancelled 12   dead 3

 LEADER   EPOCH  SHARDS AT IT  LED BY
 event        7  3 of 4        event-7f9c
 daemon       0                nobody has ever led

 shards  ▁▃▅█      6 entries, 0 to 3 a shard
 markers ■■◪□      2 of 4 whole

 QUEUE                      DUE NOW     OLDEST
 queue-0                          0          -  paused for 2h
 queue-1                          7      5.0 s
 queue-2                    20,000+          -
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
	f.Leaders[0].Host = ""
	if text := f.draw(100, 24, plain); !strings.Contains(text, "event        7  3 of 4        no living process") {
		t.Errorf("a term that nobody leads:\n%s", text)
	}
	f.Queues[2].Degraded, f.IndexErr = 3, errors.New("dial tcp: refused")
	for _, want := range []string{"queue-2                    20,000+          -  degraded, workers that look in MySQL: 3", "\n Redis is away: dial tcp: refused"} {
		if text := f.draw(100, 24, plain); !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	f.Queues[1].Workers = 0
	if text := f.draw(100, 24, plain); !strings.Contains(text, "queue-1                          7      5.0 s  no worker reports") {
		t.Errorf("a queue without workers:\n%s", text)
	}
	f.err = errors.New("mysql is\naway")
	if text := f.draw(80, 24, plain); !strings.HasSuffix(text, "\n figures are old: mysql is; away") {
		t.Errorf("without figures:\n%s", text)
	}
}

// After a read that failed, top waits as after one that took as long and did not.
func TestTopWaitsAfterAFailedRead(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{time.Millisecond: topInterval, 15 * time.Second: 75 * time.Second} {
		after, _ := screen{picture: busy(1, 1)}.Update(frameRead{err: errors.New("too slow"), took: took})
		if got := after.(screen).picture; got.interval != want || got.err == nil || got.Fired == 0 {
			t.Errorf("after a read that failed in %v: %v, error %v, figures %d; want the old ones for %v", took, got.interval, got.err, got.Fired, want)
		}
	}
}

func TestTopNamesKindsThatNobodyHandles(t *testing.T) {
	t.Parallel()
	f := picture{Frame: console.Frame{Unhandled: []console.Unhandled{
		{Queue: "default", Kind: "pet.meel", Tasks: 12}, {Queue: "a", Kind: "b", Tasks: 1}, {Queue: "a", Kind: "c", Tasks: 1}, {Queue: "a", Kind: "d", Tasks: 1},
	}}}
	if got := f.draw(160, 24, plain); !strings.Contains(got, "no handler for pet.meel in queue default: 12 waiting") || !strings.Contains(got, "and 1 more kinds") {
		t.Errorf("got\n%s", got)
	}
	f.Unhandled = nil
	if got := f.draw(160, 24, plain); strings.Contains(got, "no handler") {
		t.Errorf("got\n%s", got)
	}
}

func TestFrameIsInTheOperatorsZone(t *testing.T) {
	t.Parallel()
	p := busy(1, 1)
	for zone, want := range map[*time.Location]string{
		nil: "2026-11-21 14:00:00 UTC", time.FixedZone("CST", 8*3600): "2026-11-21 22:00:00 CST", time.FixedZone("", -12600): "2026-11-21 10:30:00 -0330",
	} {
		p.zone = zone
		head, _, _ := strings.Cut(p.draw(80, 24, plain), "\n")
		if !strings.HasSuffix(strings.TrimSpace(head), want) || len(head) > 80 {
			t.Errorf("%v: %q, want it to end with %s within 80", zone, head, want)
		}
	}
}
