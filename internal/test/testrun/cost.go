package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// costArg makes this program run another one and note what it cost: go test runs test binaries by it.
const costArg = "-cost-of"

// costs is where the test binaries' costs are gathered.
type costs struct {
	path string // of the file; each line is a cost
	self string // this program
}

// cost is what one test binary took, with the servers that it started.
type cost struct {
	leg, pkg     string
	wall         time.Duration
	user, system time.Duration
}

func newCosts() (*costs, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "duetime-testrun-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for costs: %w", err)
	}
	return &costs{filepath.Join(dir, "costs"), self}, nil
}

func (c *costs) close() { _ = os.RemoveAll(filepath.Dir(c.path)) }

// wrapper is the argument of go test -exec.
func (c *costs) wrapper(leg string) string {
	return fmt.Sprintf("%s %s %s %q", c.self, costArg, c.path, leg)
}

// total is what this program's children have cost: compilers, test binaries and servers.
func (c *costs) total() (user, system time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// runCosted runs a test binary, notes its cost in a line of the file, and returns its exit code. args are the file, the leg and
// the command.
func runCosted(args []string) int {
	file, leg, command := args[0], args[1], args[2:]
	began := time.Now()
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // what go test wants run
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // the kernel ends the binary when the thread that started it ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	state := cmd.ProcessState
	dir, _ := os.Getwd() // go test runs a binary in its package's folder
	line := strings.Join([]string{leg, dir, time.Since(began).String(), state.UserTime().String(), state.SystemTime().String()}, "\t")
	if f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil { //nolint:gosec // our own file
		_, _ = fmt.Fprintln(f, line)
		_ = f.Close()
	}
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	return 2 // a signal ended it
}

// list reads the costs noted so far.
func (c *costs) list() ([]cost, error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, fmt.Errorf("read costs: %w", err)
	}
	defer func() { _ = f.Close() }()
	var out []cost
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("costs have a line %q", lines.Text())
		}
		one := cost{leg: fields[0], pkg: fields[1]}
		for i, d := range []*time.Duration{&one.wall, &one.user, &one.system} {
			if *d, err = time.ParseDuration(fields[2+i]); err != nil {
				return nil, fmt.Errorf("costs have a line %q: %w", lines.Text(), err)
			}
		}
		out = append(out, one)
	}
	return out, nil
}
