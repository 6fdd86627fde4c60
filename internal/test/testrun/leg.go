package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// leg is one `go test`: some packages of a module, on one SQL server.
type leg struct {
	title    string
	dir      string   // of the module
	sql      string   // as DUETIME_TEST_SQL names the server
	own      bool     // each package starts the servers that it needs, instead of the run's
	args     []string // of go test
	packages []string
}

// packageLimit ends a package that hangs; it says nothing about speed.
const packageLimit = "30m"

// endLimit is how long go test and its children have to end after a signal.
const endLimit = 20 * time.Second

// runLeg runs a leg and shows it.
func (s *session) runLeg(ctx context.Context, l leg) (*result, error) {
	s.out.say("go test %s: %s\n", strings.Join(l.args, " "), l.title)
	env := []string{"DUETIME_TEST_TIER=" + s.tier, "DUETIME_TEST_SQL=" + l.sql}
	if !l.own {
		env = append(env, s.lent...)
	}
	r := newResult(l)
	args := append([]string{"-count=1", "-p", "2", "-timeout", packageLimit}, l.args...)
	return r, s.goTest(ctx, r, env, append(args, l.packages...))
}

// goTest runs go test and reads what it says. Tests that fail are no error.
func (s *session) goTest(ctx context.Context, r *result, env, args []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-exec", s.costs.wrapper(r.leg.title)}, args...)...) //nolint:gosec // the arguments are ours
	cmd.Dir, cmd.Stderr = r.leg.dir, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	// A group of its own: whatever it has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endLimit
	events, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	readErr := r.read(events, s.out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, events)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if err = nil; len(r.failures)+len(r.broken) == 0 {
			err = fmt.Errorf("go test named no test: %w", exit)
		}
	}
	return errors.Join(readErr, err)
}
