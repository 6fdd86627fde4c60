package index_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

type wake struct {
	Shard int
	At    time.Time
}

// wakes subscribes and returns once all shards are subscribed. Later wake-ups come through the channel, in order for each
// shard.
func wakes(t testing.TB, x *index.Index, shards int) <-chan wake {
	t.Helper()
	received := make(chan wake, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- x.Wakes(ctx, shards, func(shard int, at time.Time) {
			if !at.IsZero() {
				received <- wake{shard, at}
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("wakes ended with %v, want context.Canceled", err)
		}
	})
	for shard := range shards {
		subscribed(t, x, shard, received)
	}
	return received
}

// subscribed publishes a marker until one arrives, then a last one, and receives all of them.
func subscribed(t testing.TB, x *index.Index, shard int, received <-chan wake) {
	t.Helper()
	publish := func(ctx context.Context, ms string) {
		_ = x.Client().Publish(ctx, x.Key(shard, "wake"), ms).Err()
		_ = x.Client().SPublish(ctx, x.Key(shard, "wake"), ms).Err()
	}
	eventually(t, "subscription", func(ctx context.Context) bool {
		publish(ctx, "1")
		select {
		case <-received:
			return true
		default:
			return false
		}
	})
	publish(t.Context(), "2")
	for w := range received {
		if w.At.UnixMilli() == 2 {
			return
		}
	}
}

// expect receives wake-ups up to a last marker of the shard.
func expect(t testing.TB, x *index.Index, received <-chan wake, what string, want ...wake) {
	t.Helper()
	pipelinetest.Must(t, x.Client().Publish(t.Context(), x.Key(0, "wake"), "3").Err())
	var got []wake
	for {
		select {
		case w := <-received:
			if w.At.UnixMilli() == 3 {
				diff(t, what, got, want)
				return
			}
			got = append(got, w)
		case <-time.After(limit):
			t.Fatalf("%s: no wake-up for %v", what, limit)
		}
	}
}

func TestEarlierHeadWakes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		in := wakes(t, x, 2)
		a, b, c := pending("o", 1000, 1), pending("o", 2000, 1), pending("o", 500, 1)
		put(t, x, a)
		expect(t, x, in, "the first", wake{0, at(1000)})
		put(t, x, b)
		expect(t, x, in, "a later one")
		put(t, x, a)
		expect(t, x, in, "a repeat")
		put(t, x, c, pending("o", 700, 1), pending("p", 600, 1))
		expect(t, x, in, "three at once", wake{0, at(500)})
		put(t, x, moved(c, 3000, 2))
		expect(t, x, in, "the head moved away")
		put(t, x, moved(b, 100, 2))
		expect(t, x, in, "a later one moved up", wake{0, at(100)})
		put(t, x, moved(b, 10, 1))
		expect(t, x, in, "a refused one")
		put(t, x, ended(b, 3))
		expect(t, x, in, "an end")
	})
}

func TestClaimedHeadDoesNotHideALaterOne(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		in := wakes(t, x, 1)
		a, far := pending("o", 10, 1), pending("o", 9000, 1)
		put(t, x, far, a)
		expect(t, x, in, "first", wake{0, at(10)})
		diff(t, "claim", claim(t, x, 50, 9).Entries, entries(a))

		b, c, d := pending("o", 100, 1), pending("o", 200, 1), pending("o", 5, 1)
		put(t, x, b) // later than a, which is claimed but not removed, and earlier than all unclaimed entries
		expect(t, x, in, "behind the claimed one", wake{0, at(100)})
		put(t, x, c)
		expect(t, x, in, "behind that one")
		put(t, x, d)
		expect(t, x, in, "before the claimed one", wake{0, at(5)})

		diff(t, "limited claim", claim(t, x, 500, 2, entries(a)...).Entries, entries(d, b))
		put(t, x, pending("o", 150, 1))
		expect(t, x, in, "before the first that the limit left", wake{0, at(150)})
		claim(t, x, 0, 9) // returns nothing: the horizon stays
		put(t, x, pending("o", 160, 1))
		expect(t, x, in, "after that one")
	})
}

func TestRepairWakes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		in := wakes(t, x, 1)
		a := pending("o", 1000, 1)
		put(t, x, a)
		expect(t, x, in, "put", wake{0, at(1000)})
		early, late := moved(a, 10, 2), moved(a, 4000, 3)
		repair(t, x, protocol.Repair{Task: a, Seen: both(a), Right: both(early)})
		expect(t, x, in, "earlier", wake{0, at(10)})
		repair(t, x, protocol.Repair{Task: a, Seen: both(a), Right: both(moved(a, 1, 9))})
		expect(t, x, in, "not as seen")
		repair(t, x, protocol.Repair{Task: a, Seen: both(early), Right: both(late)})
		expect(t, x, in, "later")
	})
}

func TestWakesComeFromEveryShard(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		in := wakes(t, x, 16)
		want := map[int]time.Time{}
		var all []task.Task
		for s := range 16 {
			p := pending("o", int64(s), 1)
			p.Shard, want[s] = s, at(int64(s))
			all = append(all, p)
		}
		put(t, x, all...)
		got := map[int]time.Time{}
		for len(got) < 16 {
			select {
			case w := <-in:
				got[w.Shard] = w.At
			case <-time.After(limit):
				t.Fatalf("only %d shards woke", len(got))
			}
		}
		diff(t, "wakes", got, want)
	})
}

// A put may have come without a subscription, so each shard must be woken.
func TestEachConnectionWakesEveryShard(t *testing.T) {
	t.Parallel()
	x := open(t, index.Config{Addrs: []string{pipelinetest.OwnRedis(t).Addr()}})
	connected := make(chan int, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- x.Wakes(ctx, 3, func(shard int, at time.Time) {
			if at.IsZero() {
				connected <- shard
			}
		})
	}()
	for range 2 {
		seen := map[int]bool{}
		for len(seen) < 3 {
			seen[<-connected] = true
		}
		pipelinetest.Must(t, x.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("wakes ended with %v, want context.Canceled", err)
	}
}
