package precise

import (
	"runtime"
	"testing"
	"time"
)

// No sleeper returns too early, not even right after a shorter or a longer sleep.
func TestSleepIsNeverShort(t *testing.T) {
	t.Parallel()
	open, closed := New(), New()
	defer open.Close()
	closed.Close()
	for name, s := range map[string]*Sleeper{"open": open, "closed": closed, "nil": nil} {
		for _, d := range []time.Duration{
			-time.Second, 0, 1, time.Microsecond, 10 * time.Millisecond, 300 * time.Microsecond, 1500 * time.Microsecond,
		} {
			began := time.Now()
			s.Sleep(d)
			if took := time.Since(began); took < d {
				t.Errorf("%s: slept %v instead of %v", name, took, d)
			}
		}
	}
}

func TestLinuxHasKernelTimers(t *testing.T) {
	t.Parallel()
	s := New()
	defer s.Close()
	if got, want := s.timer != nil, runtime.GOOS == "linux"; got != want {
		t.Fatalf("a kernel timer on %s: %v, want %v", runtime.GOOS, got, want)
	}
	if s.timer != nil {
		if err := s.timer.wait(time.Microsecond); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkSleep shows by how much sleeps of a millisecond and less are too long.
func BenchmarkSleep(b *testing.B) {
	kernel := New()
	defer kernel.Close()
	for name, s := range map[string]*Sleeper{"kernel": kernel, "Go": nil} {
		b.Run(name, func(b *testing.B) {
			var late time.Duration
			n := 0
			for b.Loop() {
				d := time.Duration(100+n*37%900) * time.Microsecond
				began := time.Now()
				s.Sleep(d)
				late += time.Since(began) - d
				n++
			}
			b.ReportMetric(float64(late.Microseconds())/float64(n), "late-µs/op")
		})
	}
}
