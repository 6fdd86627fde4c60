package worker

import (
	"context"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/pkg/task"
)

// session records what is committed.
type session struct {
	commits []map[int]int64
	lost    chan struct{}
}

func (s *session) Partitions() []int                              { return []int{0} }
func (s *session) Fetch(context.Context) ([]task.Delivery, error) { return nil, context.Canceled }
func (s *session) Lost() <-chan struct{}                          { return s.lost }
func (s *session) Commit(_ context.Context, next map[int]int64) error {
	s.commits = append(s.commits, maps.Clone(next))
	return nil
}

// An offset is committed only when all messages delivered before it are settled, in whatever order that happens, over
// logs with gaps; and once all are, nothing is left uncommitted.
func TestPrefixCommitsNoOffsetBeforeAnUnsettledOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &session{}
		g := newGeneration(s, time.Now())
		type message struct {
			offset  int64
			mark    mark
			settled bool
		}
		logs := map[int][]*message{}
		var all []*message
		for p := range rapid.IntRange(1, 3).Draw(t, "partitions") {
			offset := int64(0)
			for range rapid.IntRange(0, 12).Draw(t, "messages") {
				offset += int64(rapid.IntRange(1, 5).Draw(t, "gap"))
				m, before := g.deliver(p, offset)
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
			msg.mark.settle()
			msg.settled = true
			if rapid.Bool().Draw(t, "twice") {
				msg.mark.settle()
			}
			if err := g.commit(context.Background()); err != nil {
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
		if g.uncommitted != 0 {
			t.Fatalf("%d uncommitted at the end", g.uncommitted)
		}
	})
}

// A batch ends after its partitions were given to another worker: its offsets must never be committed, neither by the
// old generation nor by the new one, which has read its own messages from the committed offset on.
func TestOldGenerationsResultsAreNeverCommitted(t *testing.T) {
	t.Parallel()
	before, after := &session{}, &session{}
	h := newHold(localClock())
	hint := task.Hint{ID: task.NewID(), Owner: "a", Version: 1}
	old := newGeneration(before, time.Now())
	settled, _ := old.deliver(0, 8)
	settled.settle() // and not yet committed
	first, _ := old.deliver(0, 10)
	h.add(&held{hint: hint, marks: []mark{first}})
	taken := h.take(context.Background(), laneBatch, 10)

	old.end()
	h.drop(old)
	fresh := newGeneration(after, time.Now())
	lower, _ := fresh.deliver(0, 9) // another task, before it in the log
	again, _ := fresh.deliver(0, 10)
	h.add(&held{hint: task.Hint{ID: task.NewID(), Owner: "b", Version: 1}, marks: []mark{lower}})
	h.add(&held{hint: hint, marks: []mark{again}})

	taken[0].settled = true
	if gone := h.release(taken); len(gone) != 0 {
		t.Errorf("%d hints gone that somebody waits for", len(gone))
	}
	for _, g := range []*generation{old, fresh} {
		if err := g.commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(before.commits) != 0 {
		t.Errorf("old generation committed %v", before.commits)
	}
	if len(after.commits) != 0 {
		t.Errorf("new generation committed %v over an unsettled message", after.commits)
	}
	rest := h.take(context.Background(), laneBatch, 10)
	rest[0].settled = true
	h.release(rest)
	if err := fresh.commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(after.commits) != 1 || after.commits[0][0] != 11 {
		t.Errorf("new generation committed %v, want 11", after.commits)
	}
}

func TestRoomIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := newGeneration(&session{}, time.Now())
	first, _ := g.deliver(0, 1)
	second, _ := g.deliver(0, 2)
	second.settle()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if g.waitRoom(ctx, 2) == nil {
		t.Error("room for a third of two, while the first is unsettled")
	}
	go first.settle()
	if err := g.waitRoom(context.Background(), 2); err != nil {
		t.Error(err)
	}
}
