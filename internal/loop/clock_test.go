package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serverAhead is a server whose clock is ahead of the local one.
func serverAhead(ahead, round *time.Duration) Probe {
	return func(context.Context) (time.Time, error) {
		time.Sleep(*round / 2)
		now := time.Now().Add(*ahead)
		time.Sleep(*round / 2)
		return now, nil
	}
}

func newTestClock(p Probe) *Clock { return NewClock(p, slog.New(slog.DiscardHandler), nil) }

func TestClockFastestProbeWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := 3*time.Second, 2*time.Millisecond
		c := newTestClock(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A slow probe whose answer took all of the round trip must not move the clock.
		c.probe = func(context.Context) (time.Time, error) {
			now := time.Now().Add(ahead)
			time.Sleep(time.Second)
			return now, nil
		}
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(c.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

func TestClockOldProbesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Second, time.Millisecond
		c := newTestClock(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(probeWindow)
		ahead, round = -time.Second, 10*time.Millisecond // the server's clock was set back
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(c.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

// Fast probes from before the clock was set must not outweigh slower ones from after.
func TestClockFollowsADatabaseWhoseClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Duration(0), time.Millisecond
		c := newTestClock(serverAhead(&ahead, &round))
		for _, ahead = range []time.Duration{0, 30 * time.Second, -30 * time.Second, 0, 100 * time.Millisecond} {
			round += time.Millisecond
			if err := c.Learn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Until(c.Now()); got != ahead {
				t.Errorf("ahead by %v, want %v", got, ahead)
			}
		}
	})
}

func TestClockTellsTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		ahead, round := time.Duration(0), time.Millisecond
		reg := prometheus.NewRegistry()
		c := NewClock(serverAhead(&ahead, &round), slog.New(slog.NewTextHandler(&said, nil)), reg)
		NewClock(c.probe, c.logger, reg) // the gauge is the process's
		for _, step := range []struct {
			ahead time.Duration
			lines int
		}{{0, 0}, {190 * time.Millisecond, 0}, {-30 * time.Second, 1}, {30 * time.Second, 1}, {0, 2}, {210 * time.Millisecond, 3}} {
			ahead = step.ahead
			for range 2 {
				if err := c.Learn(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			shown, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if got := shown[0].GetMetric()[0].GetGauge().GetValue(); got != ahead.Seconds() {
				t.Errorf("%s is %v, want %v", shown[0].GetName(), got, ahead.Seconds())
			}
			if got := strings.Count(said.String(), `msg="clock gap" gap=`); got != step.lines {
				t.Errorf("at %v: %d lines, want %d:\n%s", ahead, got, step.lines, said.String())
			}
		}
	})
}

func TestClockUnreachableDatabaseLeavesTheOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Minute, time.Millisecond
		c := newTestClock(serverAhead(&ahead, &round))
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		away := errors.New("away")
		c.probe = func(context.Context) (time.Time, error) { return time.Time{}, away }
		if err := c.Learn(t.Context()); !errors.Is(err, away) {
			t.Errorf("Learn = %v, want %v", err, away)
		}
		if got := time.Until(c.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}

func TestClockRunStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, round := time.Hour, time.Millisecond
		c := newTestClock(serverAhead(&ahead, &round))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(2 * probeInterval)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := time.Until(c.Now()); got != ahead {
			t.Errorf("ahead by %v, want %v", got, ahead)
		}
	})
}
