package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestOverdueRowsOfAPausedQueueAreLeftAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		_, err := w.rows.Pause(t.Context(), w.rows.DB(), "default", w.now)
		pipelinetest.Must(t, err)
		// The hint of one task was lost, the hint of the other waits in its topic. Both tasks are an hour late.
		ann, bob := w.strangers(t)
		lost := w.insert(t, pending(ann, -time.Hour))[0]
		waits := w.flying(t, pending(bob, -time.Hour))[0]
		w.now = base
		o := &overdue{r: w.Reconciler}
		for range 20 { // an age of an hour comes to its turn after some 160 s, of ten minutes sooner
			w.run(t, o.pass)
			w.now = w.now.Add(sec(20))
		}
		w.wantStanding(t, "while paused", lost, absentDue(lost))

		_, err = w.rows.Resume(t.Context(), w.rows.DB(), "default")
		pipelinetest.Must(t, err)
		o.last = w.now.Add(-sec(0.001)) // no age comes to its turn within a millisecond
		w.run(t, o.pass)
		w.wantStanding(t, "resumed", lost, both(lost))
		w.wantStanding(t, "explained by the backlog", waits, absentDue(waits))
	})
}

func TestHistoryIsPurgedWithTheRows(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		for i, age := range []time.Duration{169 * time.Hour, 167 * time.Hour} {
			pipelinetest.Must(t, w.rows.Record(t.Context(), nil, []task.Event{{At: base.Add(-age), Task: row.ID, Detail: string(rune('a' + i))}}))
		}
		w.run(t, (&purge{r: w.Reconciler}).pass)
		left, err := w.rows.History(t.Context(), row.ID, 10)
		pipelinetest.Must(t, err)
		if len(left) != 1 || left[0].Detail != "b" {
			t.Errorf("left: %v", left)
		}
	})
}
