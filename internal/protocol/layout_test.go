package protocol_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

func TestLayout(t *testing.T) {
	t.Parallel()
	l := protocol.Layout{Shards: 4, ShardsEver: 16}
	place := protocol.Shard("ann", 4)
	if l.Place("ann") != place || !slices.Equal(l.Standing("ann"), []int{place}) || l.Polled() != 16 {
		t.Errorf("place %d, standing %v, polled %d; want %d, that alone, 16", l.Place("ann"), l.Standing("ann"), l.Polled(), place)
	}
	for shard, want := range map[int]int{0: 0, 15: 15, 16: place, -1: place} {
		if got := l.ShardOf(task.Task{Owner: "ann", Shard: shard}); got != want {
			t.Errorf("a row of shard %d is indexed in %d, want %d", shard, got, want)
		}
	}
}

// What the lookahead feeds is put by writers whose clocks are slow, and what writers with fast clocks put is kept.
func TestHorizonsOfALayout(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_790_000_000_000)
	if all := (protocol.Layout{}); !all.PutUntil(now).IsZero() || !all.Keeps(time.UnixMilli(math.MaxInt64), now) {
		t.Error("without a horizon some tasks are left out")
	}
	l := protocol.Layout{Horizon: time.Hour}
	const apart = 5 * time.Second // clocks may be
	if fed := l.FedUntil(now); fed.Sub(now) <= l.Horizon || !l.PutUntil(now.Add(-apart)).After(fed) {
		t.Errorf("fed until %v, put until %v by a slow clock", fed, l.PutUntil(now.Add(-apart)))
	}
	if put := l.PutUntil(now.Add(apart)); !l.Keeps(put, now.Add(-apart)) {
		t.Errorf("put until %v by a fast clock, and not kept by a slow one", put)
	}
	if l.Keeps(now.Add(l.Horizon+time.Minute), now) {
		t.Error("kept a minute beyond the horizon")
	}
}

// While a change is going on, an owner whose place moves may stand in both places.
func TestChangingLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to int
		share    float64
	}{{4, 8, 0.5}, {8, 4, 0.5}, {8, 64, 0.875}, {2, 3, 2.0 / 3}, {0, 8, 0}} {
		l := protocol.Layout{Shards: c.to, ShardsFrom: c.from, ShardsEver: 64}
		moving := 0
		const owners = 9600
		for i := range owners {
			owner := fmt.Sprint("owner-", i)
			now := protocol.Shard(owner, c.to)
			want := []int{now}
			if c.from > 0 && protocol.Shard(owner, c.from) != now {
				want = append(want, protocol.Shard(owner, c.from))
				moving++
			}
			if got := l.Standing(owner); !slices.Equal(got, want) || l.Place(owner) != now {
				t.Fatalf("%d to %d: %s stands in %v, its place is %d; want %v, %d", c.from, c.to, owner, got, l.Place(owner), want, now)
			}
			for _, state := range []task.State{task.Pending, task.Done, task.Cancelled, task.Dead} {
				row := task.Task{Owner: owner, State: state, Shard: want[len(want)-1]}
				if want := len(want) > 1 && (state == task.Pending || state == task.Dead); l.Misplaced(row) != want {
					t.Fatalf("%d to %d: a %v row is misplaced: %v, want %v", c.from, c.to, state, !want, want)
				}
			}
		}
		if got := l.MovingShare(); math.Abs(got-c.share) > 1e-9 || math.Abs(got-float64(moving)/owners) > 0.03 {
			t.Errorf("%d to %d: a share of %v moves, want %v; counted %v", c.from, c.to, got, c.share, float64(moving)/owners)
		}
	}
}
