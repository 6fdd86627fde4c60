package wheel

import (
	"math/rand/v2"
	"testing"

	"github.com/duetime/duetime/bench/queue"
)

// The time goes over a border of each level up to 4.7 hours, with timers on both sides, moved ones among them.
func TestEachTimerFiresOnceAtItsTick(t *testing.T) {
	t.Parallel()
	const start, end = 1<<24 - 300, 1<<24 + 80_000
	for name, w := range map[string]timers{"hashed": newHashed(start), "hierarchical": newHierarchical(start)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pending := map[int64]*timer{}
			for i := range int64(5000) {
				pending[i] = &timer{job: queue.Job{ID: i}, tick: start - 5 + rand.Int64N(end-start)}
				w.add(pending[i])
			}
			for now := int64(start + 1); now <= end; now++ {
				for _, tm := range w.advance(now) {
					if tm.tick != now || pending[tm.job.ID] == nil {
						t.Fatalf("at %d fired %+v, pending %v", now, tm, pending[tm.job.ID] != nil)
					}
					delete(pending, tm.job.ID)
				}
				if tm := pending[now%5000]; tm != nil && now < end {
					tm.leave()
					tm.tick = now + 1 + rand.Int64N(end-now)
					w.add(tm)
				}
			}
			if len(pending) > 0 {
				t.Errorf("%d timers did not fire", len(pending))
			}
		})
	}
}
