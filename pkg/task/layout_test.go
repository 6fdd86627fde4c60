package task_test

import (
	"slices"
	"testing"

	"github.com/duetime/duetime/pkg/task"
)

func TestLayout(t *testing.T) {
	t.Parallel()
	l := task.Layout{Shards: 4, ShardsEver: 16}
	place := task.Shard("ann", 4)
	if l.Place("ann") != place || !slices.Equal(l.Standing("ann"), []int{place}) || l.Polled() != 16 {
		t.Errorf("place %d, standing %v, polled %d; want %d, that alone, 16", l.Place("ann"), l.Standing("ann"), l.Polled(), place)
	}
	for shard, want := range map[int]int{0: 0, 15: 15, 16: place, -1: place} {
		if got := l.ShardOf(task.Task{Owner: "ann", Shard: shard}); got != want {
			t.Errorf("a row of shard %d is indexed in %d, want %d", shard, got, want)
		}
	}
}
