package main

import (
	"context"
	"fmt"
	"slices"
)

// maxRetried is how many failures may be those of a slow machine; more of them are a fault.
const maxRetried = 10

// secondChance runs what failed once more, alone, and says whether the run is red.
func (s *session) secondChance(ctx context.Context) (red bool) {
	var failures []failure
	for _, r := range s.results {
		failures = append(failures, r.failures...)
		if len(r.broken) > 0 {
			s.out.say("NOT COMPILED: %v (%s)\n", r.broken, r.leg.title)
			red = true
		}
		for _, pkg := range r.raced {
			s.out.say("RED: %s: a data race\n", failure{leg: r.leg, pkg: pkg})
			red = true
		}
	}
	if len(failures) > maxRetried {
		s.out.say("%d failures are too many to be flakes:\n", len(failures))
		for _, f := range failures {
			s.out.say("RED: %s\n", f)
		}
		return true
	}
	for _, f := range failures {
		if err := s.retry(ctx, f); err != nil {
			s.out.say("RED: %s: %s\n", f, err)
			red = true
			continue
		}
		s.flaky = append(s.flaky, f)
	}
	return red
}

// retry runs a failed test alone, with servers of its own; nil means that it has passed.
func (s *session) retry(ctx context.Context, f failure) error {
	l := f.leg
	l.title, l.own, l.packages = "once more, alone: "+f.String(), true, []string{f.pkg}
	if f.test != "" {
		l.args = append(slices.Clone(l.args), "-run", "^"+f.test+"$")
	}
	r, err := s.runLeg(ctx, l)
	switch {
	case err != nil:
		return err
	case len(r.failures)+len(r.broken) > 0:
		return errRed
	case f.test != "" && !slices.ContainsFunc(r.tests, func(t timed) bool { return t.name == f.pkg+" "+f.test }):
		return fmt.Errorf("no test of that name ran")
	}
	return nil
}
