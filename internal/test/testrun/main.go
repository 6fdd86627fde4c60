package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == costArg {
		os.Exit(runCosted(os.Args[2:]))
	}
	os.Exit(run())
}

func run() int {
	tier := flag.String("tier", "test", "test, check or nightly: how much runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := newSession(ctx, *tier, screen{os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer s.close()
	if err := s.play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("DUETIME_TEST_PAGE") != "" { // asks for docs/TESTING.md anew
		if err := s.writePage(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// session is one run of a tier.
type session struct {
	tier  string
	legs  []leg
	out   screen
	began time.Time
	page  string // docs/TESTING.md
	costs *costs
	lent  []string // what tells test processes of the servers that they share
	stop  func()   // ends these servers

	results []*result
	flaky   []failure
}

// screen is where the run is shown. What can't be shown is lost: the exit code tells.
type screen struct{ io.Writer }

func (s screen) say(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }

// errRed is the answer of a run with tests that failed twice.
var errRed = errors.New("tests failed")

// play runs the legs one after the other, gives what failed its second run, and says how it went.
func (s *session) play(ctx context.Context) error {
	for _, l := range s.legs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := s.runLeg(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.title, err)
		}
		s.results = append(s.results, r)
	}
	red := s.secondChance(ctx)
	s.report()
	if err := s.keepFlaky(); err != nil || !red {
		return err
	}
	return errRed
}

// report says how long it took, what was left out and what was flaky: the last that a reader sees.
func (s *session) report() {
	user, system := s.costs.total()
	s.out.say("%s: %s, user+sys %.0f s\n", s.tier, time.Since(s.began).Round(time.Second), (user + system).Seconds())
	skipped := 0
	for _, r := range s.results {
		skipped += len(r.skipped)
	}
	if skipped > 0 {
		s.out.say("left out: %d tests, which make nightly runs\n", skipped)
	}
	for _, f := range s.flaky {
		s.out.say("FLAKY: %s\n", f)
	}
}
