package settle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

// A server that answers probes but takes no transaction, such as a read-only replica, is probed at growing intervals.
func TestGateIsProbedLaterAndLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		g := newGate(loop.NewClock(nil, log, nil), newMetrics(nil, nil).pauses, log)
		closings := func(n int) []time.Duration {
			var waits []time.Duration
			for range n {
				g.Close(t.Context(), errors.New("away"))
				closed, wait := g.NextProbe()
				if !closed {
					t.Fatal("open")
				}
				waits = append(waits, wait/time.Millisecond)
				g.Open()
			}
			return waits
		}
		if got, want := closings(7), []time.Duration{100, 200, 400, 800, 1600, 2000, 2000}; !slices.Equal(got, want) {
			t.Errorf("waits for %v ms, want %v", got, want)
		}
		g.committed()
		if got, want := closings(2), []time.Duration{100, 200}; !slices.Equal(got, want) {
			t.Errorf("after a commit: waits for %v ms, want %v", got, want)
		}

		g.Close(t.Context(), errors.New("away"))
		time.Sleep(300 * time.Millisecond)
		_, before := g.NextProbe()
		g.ProbeFailed()
		_, after := g.NextProbe()
		if before != 100*time.Millisecond || after != 400*time.Millisecond {
			t.Errorf("waits for %v, and for %v after a probe in vain; want 100ms and 400ms", before, after)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if g.Wait(ended) == nil {
			t.Error("closed, and nobody waits")
		}
		g.Open()
		if err := g.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
