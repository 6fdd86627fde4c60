package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is what one pass of a script answers; play sets at to the pass's moment since the start.
type step struct {
	res Result
	err error
}

// play runs the steps in a bubble of fake time, then cancels, and returns the moment of each pass.
func play(t *testing.T, cfg Config, steps ...step) []time.Duration {
	t.Helper()
	var at []time.Duration
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		err := Run(ctx, cfg, func(context.Context) (Result, error) {
			at = append(at, time.Since(start))
			s := steps[len(at)-1]
			if len(at) == len(steps) {
				cancel()
			}
			return s.res, s.err
		})
		if err != nil {
			t.Errorf("got %v, want nil after the end of the context", err)
		}
	})
	return at
}

func TestSleepsExactly(t *testing.T) {
	t.Parallel()
	got := play(
		t, Config{Interval: time.Second},
		step{res: Result{}},
		step{res: Result{Next: 7*time.Millisecond + 1}},
		step{res: Result{Next: time.Hour}},
		step{res: Result{More: true, Next: time.Minute}},
		step{res: Result{More: true}},
		step{res: Result{Next: 1}},
		step{},
	)
	ms := time.Millisecond
	want := []time.Duration{0, 1000 * ms, 1007*ms + 1, 2007*ms + 1, 2007*ms + 1, 2007*ms + 1, 2007*ms + 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("moments of the passes (-want +got):\n%s", diff)
	}
}

func TestOverduePassDoesNotSpin(t *testing.T) {
	t.Parallel()
	over := step{res: Result{Next: -time.Second}}
	got := play(t, Config{Interval: 5 * time.Millisecond}, over, over, over, over, over, step{}, over, step{})
	ms := time.Millisecond
	want := []time.Duration{0, 1 * ms, 3 * ms, 7 * ms, 12 * ms, 17 * ms, 22 * ms, 23 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("moments of the passes (-want +got):\n%s", diff)
	}
}

func TestJitterOnlyShortensTheInterval(t *testing.T) {
	t.Parallel()
	steps := make([]step, 200)
	got := play(t, Config{Interval: time.Second, Jitter: 0.2}, steps...)
	different := false
	for i := range len(got) - 1 {
		d := got[i+1] - got[i]
		if d < 800*time.Millisecond || d > time.Second {
			t.Fatalf("sleep %d was %v, want from 800ms to 1s", i, d)
		}
		different = different || d != got[1]-got[0]
	}
	if !different {
		t.Error("200 jittered sleeps were equal")
	}
}

func TestBackoffGrowsAndResets(t *testing.T) {
	t.Parallel()
	bad := step{err: errors.New("away")}
	cfg := Config{Interval: time.Millisecond, MinBackoff: 100 * time.Millisecond, MaxBackoff: 300 * time.Millisecond}
	got := play(t, cfg, bad, bad, bad, bad, step{}, bad, step{})
	for i, highest := range []time.Duration{100, 200, 300, 300, 1, 100} {
		highest *= time.Millisecond
		lowest := highest / 2
		if i == 4 {
			lowest = highest // an idle sleep
		}
		if d := got[i+1] - got[i]; d < lowest || d > highest {
			t.Errorf("sleep %d was %v, want from %v to %v", i, d, lowest, highest)
		}
	}
}

func TestLogsEachErrorOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a, b := step{err: errors.New("a")}, step{err: errors.New("b")}
	play(t, Config{Name: "sweep", Logger: slog.New(slog.NewTextHandler(&out, nil))}, a, a, b, b, step{}, step{}, a, step{}, a)
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(line, "level=")
		got = append(got, strings.TrimSpace(text))
	}
	want := []string{
		`WARN msg="pass error" loop=sweep attempt=1 err=a`,
		`WARN msg="pass error" loop=sweep attempt=3 err=b`,
		`INFO msg="pass recovered" loop=sweep n=4`,
		`WARN msg="pass error" loop=sweep attempt=1 err=a`,
		`INFO msg="pass recovered" loop=sweep n=1`,
	} // the last error is not logged: the end of the context interrupted its pass
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wakes starts a loop in the bubble; at returns the moments of its passes so far.
func wakes(ctx context.Context, t *testing.T, wake chan struct{}, pass func(n int) (Result, error)) func() []time.Duration {
	t.Helper()
	start, done := time.Now(), make(chan struct{})
	var at []time.Duration
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		cfg := Config{Interval: time.Minute, Wake: wake, MinBackoff: time.Second, MaxBackoff: time.Second}
		if err := Run(ctx, cfg, func(context.Context) (Result, error) {
			at = append(at, time.Since(start))
			return pass(len(at))
		}); err != nil {
			t.Error(err)
		}
	}()
	return func() []time.Duration { synctest.Wait(); return at }
}

func TestWakeEndsAnIdleSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		at := wakes(t.Context(), t, wake, func(int) (Result, error) { return Result{}, nil })
		time.Sleep(7 * time.Second)
		wake <- struct{}{}
		if diff := cmp.Diff([]time.Duration{0, 7 * time.Second}, at()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		close(wake) // ends one sleep; after that the loop must not spin
		time.Sleep(59 * time.Second)
		if got := at(); len(got) != 3 {
			t.Errorf("passes at %v, want 3", got)
		}
	})
}

func TestWakesDuringAPassMakeOneMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 100)
		at := wakes(t.Context(), t, wake, func(n int) (Result, error) {
			if n == 1 {
				for range 100 {
					wake <- struct{}{}
				}
			}
			return Result{}, nil
		})
		time.Sleep(time.Second)
		if diff := cmp.Diff([]time.Duration{0, 0}, at()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestWakeDoesNotCutABackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		at := wakes(t.Context(), t, wake, func(int) (Result, error) { return Result{}, errors.New("away") })
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		if got := at(); len(got) > 3 { // one second in sleeps of at least half a second
			t.Errorf("passes at %v, want at most 3", got)
		}
	})
}

func TestCancelEndsASleep(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"idle": nil, "back-off": errors.New("away")} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			cfg := Config{Interval: time.Hour, MinBackoff: time.Hour, MaxBackoff: time.Hour}
			got := Run(ctx, cfg, func(context.Context) (Result, error) { return Result{}, err })
			if got != nil || time.Since(start) != time.Second {
				t.Errorf("%s: got %v after %v, want nil after 1s", name, got, time.Since(start))
			}
		})
	}
}

func TestEndedContextRunsNoPass(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Run(ctx, Config{}, func(context.Context) (Result, error) {
		t.Error("a pass ran")
		return Result{More: true}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCancelDuringAFullPassEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	passes := 0
	err := Run(ctx, Config{}, func(ctx context.Context) (Result, error) {
		passes++
		cancel()
		return Result{More: true}, ctx.Err()
	})
	if err != nil || passes != 1 {
		t.Errorf("got %v after %d passes, want nil after 1", err, passes)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	fenced := errors.New("fenced")
	err := Run(t.Context(), Config{}, func(context.Context) (Result, error) {
		return Result{}, fmt.Errorf("claim: %w", Stop(fenced))
	})
	if !errors.Is(err, fenced) {
		t.Errorf("got %v, want %v", err, fenced)
	}
	if Stop(nil) != nil {
		t.Error("Stop(nil) is not nil")
	}
}

func TestImpossibleConfigs(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Interval: -1}, {Jitter: -0.1}, {Jitter: 1.1}, {Jitter: math.NaN()}, {MinBackoff: 2, MaxBackoff: 1}, {MinBackoff: -1},
	} {
		if err := Run(t.Context(), cfg, nil); err == nil {
			t.Errorf("%+v passed", cfg)
		}
	}
	for _, cfg := range []Config{{MinBackoff: time.Minute}, {MaxBackoff: time.Millisecond}, {}} {
		got, err := cfg.withDefaults()
		if err != nil || got.MinBackoff > got.MaxBackoff || got.Interval <= 0 {
			t.Errorf("%+v became %+v, %v", cfg, got, err)
		}
	}
}
