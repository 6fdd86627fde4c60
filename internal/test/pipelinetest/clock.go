package pipelinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Clock is a wall clock that a test moves under a running server. Servers that share one jump together. Monotonic
// time, and so every timeout, runs on as ever. It acts through Debian's libfaketime, which Go programs don't notice.
type Clock struct {
	t       testing.TB
	library string
	file    string // what libfaketime reads at every look at the clock

	mu     sync.Mutex
	offset time.Duration
}

// NewClock makes a clock that shows the right time.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	needServers(t)
	library, err := fakeTime()
	Must(t, err)
	base, err := runFolder()
	Must(t, err)
	dir, err := os.MkdirTemp(base, "clock-")
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Clock{t: t, library: library, file: filepath.Join(dir, "offset")}
	c.Shift(0)
	return c
}

// fakeTime finds libfaketime, whose folder is named after the machine's architecture. The MT variant is the one for
// programs with threads.
func fakeTime() (string, error) {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("faketime is not installed: run ./scripts/test: %w", os.ErrNotExist)
	}
	return found[0], nil
}

// Shift moves the clock by d, forward or back, from where it stands. The servers' next look at it sees the jump.
func (c *Clock) Shift(d time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	// A rename, because a server that finds the file half written ends itself.
	fresh := c.file + ".new"
	offset := c.offset + d
	Must(c.t, os.WriteFile(fresh, fmt.Appendf(nil, "%+.3f\n", offset.Seconds()), 0o600))
	Must(c.t, os.Rename(fresh, c.file))
	c.offset = offset
}

// Offset returns how far the clock is ahead of the right time.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// env is what makes a server follow the clock.
func (c *Clock) env() []string {
	return []string{
		// The C library is named so that its malloc comes before jemalloc's, which Debian's Redis brings along:
		// jemalloc asks for the time while it starts, libfaketime then allocates, and the two wait for each other.
		"LD_PRELOAD=" + c.library + ":libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + c.file,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		// Without this libfaketime mistakes the offset for elapsed time in waits on the monotonic clock: a JVM's
		// timed waits end at once under a clock that is ahead, and too late under one that is behind. By its source
		// version 0.9.10 lacks the switch on ARM: shift no JVM there.
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
		"NO_FAKE_STAT=1",
		"LC_ALL=C", // the decimal point
	}
}

// tidy removes what libfaketime puts into shared memory for the children of process pid, which a kill would leave.
func (c *Clock) tidy(pid int) {
	for _, name := range []string{"faketime_shm_%d", "sem.faketime_sem_%d"} {
		_ = os.Remove(filepath.Join("/dev/shm", fmt.Sprintf(name, pid)))
	}
}

// UseClock makes the server follow c from its next start on; nil gives it the machine's clock back.
func (s *Server) UseClock(c *Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = c
}
