package dispatch

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// crowdOf puts n tasks of shard 0 that are due at one millisecond.
func (w *world) crowdOf(t testing.TB, n int, ms int64) []task.Task {
	t.Helper()
	all := make([]task.Task, n)
	for i := range all {
		all[i] = pending("default", at(ms))
	}
	for part := all; len(part) > 0; {
		n := min(len(part), task.MaxPerCall)
		pipelinetest.Must(t, w.index.Put(t.Context(), part[:n]))
		part = part[n:]
	}
	return all
}

// sent counts the tasks whose hint was published.
func (w *world) sent(of []task.Task) int {
	n := 0
	for _, one := range of {
		n += min(w.stream.hints(one), 1)
	}
	return n
}

// rush passes until the shard would sleep.
func rush(t *testing.T, s *shard) time.Duration {
	t.Helper()
	for range 100 {
		if res := pass(t, s); !res.More {
			return res.Next
		}
	}
	t.Fatal("never sleeps")
	return 0
}

func TestACrowdIsSentAheadOfItsLead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Lead = 50 * time.Millisecond
		s := w.shard(0, 1, nil)
		s.crowd.maxAhead, s.crowd.minEntries = 1200, 300
		few, many := w.crowdOf(t, 100, 1800), w.crowdOf(t, 3000, 2500)
		if rush(t, s); w.sent(few) != 0 {
			t.Errorf("%d of a few were sent ahead of the lead", w.sent(few))
		}
		*w.now = at(450)
		if rush(t, s); w.sent(many) != 0 {
			t.Errorf("%d were sent more than two seconds ahead", w.sent(many))
		}
		*w.now = at(600)
		if wait := rush(t, s); w.sent(few)+w.sent(many) != 1200 || w.sent(few) != 100 {
			t.Errorf("sent %d and %d, then sleeps %v; want all the room filled, the first due first", w.sent(few), w.sent(many), wait)
		}
		*w.now = at(1900)
		if wait := rush(t, s); w.sent(many) != 1100 || wait != 500*time.Millisecond {
			t.Errorf("sent %d, then sleeps %v; want no more until these are due", w.sent(many), wait)
		}
		*w.now = at(2400)
		rush(t, s)
		if pass(t, s); w.sent(many) != 3000 || w.count(t) != 0 {
			t.Errorf("sent %d within the lead and left %d, want all", w.sent(many), w.count(t))
		}
		next := w.crowdOf(t, 2000, 5000)
		*w.now = at(3100)
		if rush(t, s); w.sent(next) != 1200 {
			t.Errorf("sent %d of the next crowd ahead, want 1200", w.sent(next))
		}
	})
}

func TestNothingIsSentAheadWithoutALead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		s := w.shard(0, 1, nil)
		all := w.crowdOf(t, 17_000, 500)
		if rush(t, s); w.sent(all) != 0 {
			t.Errorf("%d were sent early", w.sent(all))
		}
		*w.now = at(500)
		if rush(t, s); w.sent(all) != len(all) {
			t.Errorf("%d were sent in time, want all", w.sent(all))
		}
	})
}
