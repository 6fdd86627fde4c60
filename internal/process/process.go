// Package process owns what every long-running command does around its work: flags, signals, logs, readiness, the
// admin HTTP server, and the ordered close at the end.
//
// It promises that a SIGTERM or SIGINT ends the process within ten seconds, or two more than a longer drain (Env.SetDrain),
// whatever it waits for; that everything registered with OnStop is closed in reverse order, by name; and that a process that
// can't run says why in one line.
// The package knows no configuration key and no stage of ours, and starts nothing by itself.
//
// The exit codes: 0 after a signal, 1 after an error, 2 after a wrong command line.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/duetime/duetime/internal/wait"
)

// An orchestrator kills after ten seconds. The end by force comes before, so that it can name the closer that hangs.
const (
	stopTimeout  = 9500 * time.Millisecond
	closeTimeout = 9 * time.Second
	usualDrain   = 8 * time.Second // of handlers, within these
)

const (
	exitStopped = 0
	exitError   = 1
	exitUsage   = 2
)

// gcPercent is GOGC where the environment doesn't set it. The heap of a process is some tens of MB, and its garbage is
// mostly hints. At Go's default of 100, a tenth of a burst's time goes to garbage collection; at 400, two event
// processes without Kafka grow by 100 MB instead of 50. The limit of limitMemory, or GOMEMLIMIT, holds in any case.
const gcPercent = 200

// Main runs one command and returns its exit code. It reads the flags from os.Args, calls run with a context that ends
// with the first SIGTERM or SIGINT, and closes what run has registered with Env.OnStop. If run returned an error, Main
// writes it to standard error in one line. defaultConfig is the default of --config.
//
// After a signal, an error of run that is not marked with wait.Fatal is logged and the exit code is 0: a server that is
// away must not turn a stop into a crash. A second signal, or 9.5 s (1.5 s after a longer drain), end the process by force with code 1.
func Main(name, defaultConfig string, run func(ctx context.Context, env *Env) error) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	limitMemory()
	return program{
		name: name, args: os.Args[1:], defaultConfig: defaultConfig,
		stdout: os.Stdout, stderr: os.Stderr, signals: signals,
		exit: os.Exit, adopt: slog.SetDefault, stopTimeout: stopTimeout, closeTimeout: closeTimeout,
	}.main(run)
}

// program is Main with the operating system's parts as fields, so that tests can replace them.
type program struct {
	name          string
	args          []string
	defaultConfig string
	stdout        io.Writer
	stderr        io.Writer
	signals       <-chan os.Signal
	exit          func(code int)            // ends the process by force
	adopt         func(logger *slog.Logger) // makes the logger slog's default
	stopTimeout   time.Duration
	closeTimeout  time.Duration
}

func (p program) main(run func(ctx context.Context, env *Env) error) int {
	flags, err := parseFlags(p.name, p.args, p.defaultConfig, p.stdout, p.stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitStopped
	case err != nil:
		return exitUsage // parseFlags has written the reason
	}
	env := newEnv(flags, p.stderr, p.adopt)
	env.Name = p.name
	env.Registry.MustRegister(buildInfo(p.name))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := func() {
		env.stopping.Store(true) // before anything closes, which cancel may begin at once
		cancel()
	}
	// closeTimeout counts from the stop, not from the return of run: run may have used up most of the time.
	closing, expire := context.WithCancelCause(context.Background())
	defer expire(nil)
	context.AfterFunc(ctx, func() {
		late := time.AfterFunc(env.drained(p.closeTimeout), func() { expire(errCloseLate) })
		context.AfterFunc(closing, func() { late.Stop() })
	})
	signaled, done := make(chan struct{}), make(chan struct{})
	watched := make(chan struct{})
	go func() { defer close(watched); p.watch(ctx, stop, env, signaled, done) }()

	err = run(ctx, env)
	stop()
	env.closeAll(closing)
	close(done)
	<-watched
	return p.report(env, err, signaled)
}

var errCloseLate = errors.New("took too long")

// watch ends ctx at the first signal. It ends the process at the second signal, or stopTimeout after the first signal or
// after the return of run.
func (p program) watch(ctx context.Context, stop func(), env *Env, signaled, done chan struct{}) {
	select {
	case s := <-p.signals:
		env.Log().LogAttrs(ctx, slog.LevelInfo, "stopping", slog.String("signal", s.String()))
		close(signaled)
		stop()
	case <-ctx.Done():
	}
	limit := env.drained(p.stopTimeout)
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return
	case <-late.C:
		p.printf("stopped by force: still busy %v after the signal; open: %s", limit, env.openNames())
	case s := <-p.signals:
		p.printf("stopped by force: second signal (%v); open: %s", s, env.openNames())
	}
	p.exit(exitError)
}

// report logs what run returned, and returns the exit code.
func (p program) report(env *Env, err error, signaled <-chan struct{}) int {
	asked := false
	select {
	case <-signaled:
		asked = true
	default:
	}
	ctx := context.Background()
	switch {
	case err == nil, asked && errors.Is(err, context.Canceled) && !wait.IsFatal(err):
		env.Log().LogAttrs(ctx, slog.LevelInfo, "stopped")
		return exitStopped
	case asked && !wait.IsFatal(err):
		env.Log().LogAttrs(ctx, slog.LevelWarn, "stopped", slog.Any("err", err))
		return exitStopped
	case env.logSet.Load():
		env.Log().LogAttrs(ctx, slog.LevelError, "exiting", slog.Any("err", err))
	default: // no log was configured: probably the configuration is wrong
		p.printf("%v", err)
	}
	return exitError
}

// printf writes one line to standard error.
func (p program) printf(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	_, _ = fmt.Fprintf(p.stderr, "%s: %s\n", p.name, text)
}

// Flags are the command-line flags of every long-running command.
type Flags struct {
	// Config is the path of the configuration file.
	Config string
	// Explicit says that the path was given: then a missing file is an error.
	Explicit bool
}

// parseFlags parses args. If they are wrong, it writes the reason to stderr. If they ask for help, it writes the help to
// stdout and returns flag.ErrHelp.
func parseFlags(name string, args []string, defaultConfig string, stdout, stderr io.Writer) (Flags, error) {
	var f Flags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // a mistake is answered with one line, not with the whole usage
	set.StringVar(&f.Config, "config", defaultConfig, "`path` of the configuration file; if not given, it may be missing")
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(stdout, "Usage: %s [--config path]\n\n", name)
		set.SetOutput(stdout)
		set.PrintDefaults()
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v (see --help)\n", name, err)
	}
	set.Visit(func(given *flag.Flag) { f.Explicit = f.Explicit || given.Name == "config" })
	return f, err
}

// limitMemory has Go collect harder from nine tenths of the memory on at which the kernel kills this process, where the environment
// doesn't set GOMEMLIMIT. The rest is for what Go doesn't count.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		if limit := memoryLimit("/proc/self/cgroup", "/sys/fs/cgroup"); limit < math.MaxInt64 {
			debug.SetMemoryLimit(limit / 10 * 9)
		}
	}
}

// memoryLimit returns the limit of this process's control group, as containers and systemd's MemoryMax set it; math.MaxInt64 if none is
// known. groups names the group of each hierarchy; that of version 2, which alone is asked, begins with "0::".
func memoryLimit(groups, root string) int64 {
	text, _ := os.ReadFile(groups) //nolint:gosec // a constant
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			limit, _ := os.ReadFile(filepath.Join(root, group, "memory.max")) //nolint:gosec // the kernel says where
			if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil {
				return n
			}
		}
	}
	return math.MaxInt64
}
