package stream

import (
	"fmt"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// hops publishes versions of a task that waits for a worker of its kind, and returns the partitions of its hints.
func hops(owner string, partitions, n int) []int {
	row := task.Task{Owner: owner, State: task.Pending, Version: 1, DueAt: published, RunAt: published}
	var out []int
	for range n {
		row = transition.Await(row, row.RunAt)
		out = append(out, partitionOf([]byte(protocol.RouteKey(owner, protocol.ScoreOf(row))), partitions))
	}
	return out
}

func TestWaitingTaskComesByAllPartitions(t *testing.T) {
	t.Parallel()
	for partitions := 1; partitions <= 40; partitions++ {
		for o := range 20 {
			owner, seen := fmt.Sprint("owner", o), map[int]bool{}
			for _, p := range hops(owner, partitions, partitions) {
				seen[p] = true
			}
			if len(seen) != partitions {
				t.Fatalf("%s came by %d of %d partitions", owner, len(seen), partitions)
			}
		}
	}
}

// Two workers have half of the partitions each: neighbours, or every second one. One worker does not know the kind.
func TestWaitingTaskSoonLeavesAWorker(t *testing.T) {
	t.Parallel()
	for partitions := 2; partitions <= 40; partitions += 2 {
		for name, mine := range map[string]func(p int) bool{
			"neighbours":   func(p int) bool { return p < partitions/2 },
			"every second": func(p int) bool { return p%2 == 0 },
		} {
			for o := range 20 {
				others := 0
				for _, p := range hops(fmt.Sprint("owner", o), partitions, 4) {
					if !mine(p) {
						others++
					}
				}
				if others == 0 || others == 4 {
					t.Errorf("%d partitions, %s: 4 hints came to one worker", partitions, name)
				}
			}
		}
	}
}

func TestOrdinaryHintsKeepTheirOwnersPartition(t *testing.T) {
	t.Parallel()
	ids := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for o := range 100 {
		owner := fmt.Sprint("owner", o)
		want := (&kafka.Hash{}).Balance(kafka.Message{Key: []byte(owner)}, ids...)
		for version := range int64(50) {
			score := protocol.ScoreOf(task.Task{Version: version, RunAt: published})
			if got := partitionOf([]byte(protocol.RouteKey(owner, score)), len(ids)); got != want {
				t.Fatalf("%s in partition %d, want %d", owner, got, want)
			}
		}
	}
}
