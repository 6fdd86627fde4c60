package dispatch

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

func TestSleepsUntilTheNextEntryComesWithinTheLead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Lead = 50 * time.Millisecond
		s := w.shard(0, 1, nil)
		if got := pass(t, s); got.More || got.Next != time.Second {
			t.Errorf("empty shard: got %+v, want a sleep of a second", got)
		}
		far := w.put(t, "default", 30_000)
		if got := pass(t, s); got.Next != time.Second {
			t.Errorf("far entry: got %+v, want a sleep of a second", got)
		}
		w.put(t, "default", 2300)
		if got := pass(t, s); got.More || got.Next != 300*time.Millisecond {
			t.Errorf("entry in 2300 ms: got %+v, want a sleep until it can be seen what comes with it", got)
		}
		w.put(t, "default", 450)
		if got := pass(t, s); got.More || got.Next != 400*time.Millisecond {
			t.Errorf("entry in 450 ms: got %+v, want a sleep of 400 ms", got)
		}
		near := w.put(t, "default", 50)
		if got := pass(t, s); got.More || got.Next != 100*time.Millisecond || w.stream.hints(near) != 1 {
			t.Errorf("entry at the lead: got %+v and %d hints, want it claimed, and acknowledged a beat later", got, w.stream.hints(near))
		}
		if w.stream.hints(far) != 0 {
			t.Error("an entry beyond the lead was published")
		}
	})
}

func TestEntriesGatherUntilTheBeat(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Lead = 50 * time.Millisecond
		*w.now = at(10)
		s := w.shard(0, 1, nil)
		first, second, third := w.put(t, "default", 90), w.put(t, "default", 149), w.put(t, "default", 170)
		if got := pass(t, s); got.More || got.Next != 90*time.Millisecond {
			t.Errorf("got %+v, want a sleep until the beat at 100 ms", got)
		}
		if w.stream.hints(first) != 1 || w.stream.hints(second) != 1 || w.stream.hints(third) != 0 {
			t.Error("want the hints of all that have less than a lead left at the next beat, and of none else")
		}
		*w.now = at(100)
		if got := pass(t, s); got.More || got.Next != 100*time.Millisecond || w.stream.hints(third) != 1 {
			t.Errorf("got %+v and %d hints, want the third claimed at the beat", got, w.stream.hints(third))
		}
		if w.count(t) != 1 || w.stands(t, third) == protocol.NoScore {
			t.Errorf("%d entries are left, want the one that is not acknowledged", w.count(t))
		}
	})
}
