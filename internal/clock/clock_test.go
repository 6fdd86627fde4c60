package clock

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverAhead answers a probe after a round trip, with a clock so far ahead of the local one.
func serverAhead(ahead, round *time.Duration) Probe {
	return func(context.Context) (time.Time, error) {
		time.Sleep(*round / 2)
		now := time.Now().Add(*ahead)
		time.Sleep(*round / 2)
		return now, nil
	}
}

func newTest(p Probe) *Clock { return New(p, slog.New(slog.DiscardHandler), nil) }

func TestFastestProbeWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := 3*time.Second, 2*time.Millisecond
		c := newTest(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A slow probe that came back lopsided must not move the clock.
		c.probe = func(context.Context) (time.Time, error) {
			now := time.Now().Add(ahead)
			time.Sleep(time.Second)
			return now, nil
		}
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(time.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

func TestOldProbesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Second, time.Millisecond
		c := newTest(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(window)
		ahead, round = -time.Second, 10*time.Millisecond // the server's clock was set back
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(time.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

func TestUnreachableDatabaseLeavesTheOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Minute, time.Millisecond
		c := newTest(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		away := errors.New("away")
		c.probe = func(context.Context) (time.Time, error) { return time.Time{}, away }
		if err := c.Learn(t.Context()); !errors.Is(err, away) {
			t.Errorf("Learn = %v, want %v", err, away)
		}
		if got := c.Now().Sub(time.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

func TestRunStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Hour, time.Millisecond
		c := newTest(serverAhead(&ahead, &round))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(2 * every)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := c.Now().Sub(time.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}
