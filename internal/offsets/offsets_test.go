package offsets

import (
	"context"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// session records what is committed.
type session struct{ commits []map[int]int64 }

func (s *session) Commit(_ context.Context, next map[int]int64) error {
	s.commits = append(s.commits, maps.Clone(next))
	return nil
}

// An offset is committed only when all messages delivered before it are settled, in any order of settling, over
// logs with gaps. Once all messages are settled, nothing is left uncommitted.
func TestPrefixCommitsNoOffsetBeforeAnUnsettledOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &session{}
		g := NewGeneration(s)
		type message struct {
			offset  int64
			mark    Mark
			settled bool
		}
		logs := map[int][]*message{}
		var all []*message
		for p := range rapid.IntRange(1, 3).Draw(t, "partitions") {
			offset := int64(0)
			for range rapid.IntRange(0, 12).Draw(t, "messages") {
				offset += int64(rapid.IntRange(1, 5).Draw(t, "gap"))
				m, before := g.Deliver(p, offset)
				if before != len(logs[p]) {
					t.Fatalf("%d before, want %d", before, len(logs[p]))
				}
				msg := &message{offset: offset, mark: m}
				logs[p] = append(logs[p], msg)
				all = append(all, msg)
			}
		}
		if len(all) == 0 {
			return
		}
		last := map[int]int64{}
		for _, msg := range rapid.Permutation(all).Draw(t, "order") {
			msg.mark.Settle()
			msg.settled = true
			if rapid.Bool().Draw(t, "twice") {
				msg.mark.Settle()
			}
			if err := g.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, c := range s.commits {
				for p, next := range c {
					if next < last[p] {
						t.Fatalf("partition %d went back from %d to %d", p, last[p], next)
					}
					last[p] = next
				}
			}
			s.commits = nil
			for p, log := range logs {
				for _, m := range log {
					if m.offset < last[p] && !m.settled {
						t.Fatalf("committed %d over unsettled %d", last[p], m.offset)
					}
				}
			}
		}
		for p, log := range logs {
			if len(log) > 0 && last[p] != log[len(log)-1].offset+1 {
				t.Fatalf("partition %d: committed %d at the end, want %d", p, last[p], log[len(log)-1].offset+1)
			}
		}
		if g.Uncommitted() != 0 {
			t.Fatalf("%d uncommitted at the end", g.Uncommitted())
		}
	})
}

func TestRoomIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := NewGeneration(&session{})
	first, _ := g.Deliver(0, 1)
	second, _ := g.Deliver(0, 2)
	second.Settle()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if g.WaitRoom(ctx, 2) == nil {
		t.Error("room for a third of two, while the first is unsettled")
	}
	go first.Settle()
	if err := g.WaitRoom(context.Background(), 2); err != nil {
		t.Error(err)
	}
}
