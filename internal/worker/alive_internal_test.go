package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/settle"
)

// A worker whose own loop hangs, here in a driver that ignores the end of its context, is not alive a minute later. Without
// an answer of MySQL it is.
func TestWorkerThatHangsIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var hanging atomic.Bool
		probe := func(ctx context.Context) (time.Time, error) {
			if hanging.Load() {
				<-hang
			}
			<-ctx.Done() // MySQL is silent
			return time.Time{}, ctx.Err()
		}
		cfg, err := Config{}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		clock := loop.NewClock(probe, cfg.Logger, nil)
		w := &Worker{cfg: cfg, clock: clock, metrics: newMetrics(nil)}
		w.settler = settle.New(settle.Config{Logger: cfg.Logger}, nil, nil, clock, nil, nil)
		w.gate = w.settler.Gate()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.tidy(ctx) }()
		wantAlive := func(want bool) {
			t.Helper()
			if err := w.Alive(); (err == nil) != want {
				t.Errorf("alive: %v, want %v", err, want)
			}
		}
		wantAlive(true)
		time.Sleep(2 * hungAfter)
		wantAlive(true)
		hanging.Store(true)
		time.Sleep(hungAfter / 2)
		wantAlive(true)
		time.Sleep(hungAfter)
		wantAlive(false)
		close(hang)
		stop()
		<-ended
	})
}
