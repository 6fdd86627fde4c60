// Command duetime is the operator's tool: it migrates the schema, shows and changes tasks, watches and controls the
// pipeline, verifies that nothing is lost, and plays a demo in one process.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Exit codes besides 0 (done) and 1 (an error, or a promise that does not hold).
const (
	exitAway     = 2 // a server can't be reached
	exitFinished = 3 // the task, or the operation, has ended already
	exitNotFound = 4 // no such task, recurrence, operation or group
)

// exit is an error with the process's exit code.
type exit struct {
	code int
	err  error // nil if there is nothing to print
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	index.LogTo(slog.New(slog.DiscardHandler)) // errors report what is wrong with Redis
	t := &tool{in: os.Stdin, out: os.Stdout, errs: os.Stderr}
	t.addGame()
	err := t.root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if silent, ok := errors.AsType[exit](err); !ok || silent.err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "duetime: %s\n", explained(err))
	}
	return exitCode(err)
}

// explained is an error's line for an operator.
func explained(err error) string {
	text := printable(oneLine(err.Error()))
	if errors.Is(err, schedule.ErrCommitUnknown) {
		text += ": the change may have been made, look before you repeat it"
	}
	return text
}

// exitCode returns the process's exit code for an error.
func exitCode(err error) int {
	e, ok := errors.AsType[exit](err)
	switch {
	case ok:
		return e.code
	case errors.Is(err, task.ErrFinished), errors.Is(err, task.ErrOperationOver):
		return exitFinished
	case errors.Is(err, task.ErrNotFound), errors.Is(err, task.ErrNoRecurrence), errors.Is(err, task.ErrNoOperation), errors.Is(err, task.ErrNoGroup):
		return exitNotFound
	}
	return 1
}

// needsCommand runs a command that only has subcommands. It returns an error: it does nothing, and a script must not take
// that for success.
func needsCommand(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("%s needs one of its commands (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
}

// tool is shared by the commands.
type tool struct {
	in        io.Reader
	out, errs io.Writer
	config    string
	explicit  bool
	yes       bool             // answers all questions
	json      bool             // of the command that runs: its answer is JSON
	log       *slog.Logger     // of a command that runs for long; nil: errors alone, as text
	zone      zone             // of times
	sections  []config.Section // of programs that share the configuration
	page      *config.Console  // the section of the command console
	audits    []console.Audit  // of those programs' data
}

func (t *tool) root() *cobra.Command {
	t.page = config.DefaultConsole()
	t.sections = append(t.sections, t.page, config.DefaultDeliver())
	cmd := &cobra.Command{
		Use:           "duetime",
		Short:         "Migrate, inspect, change, watch and verify delayed tasks",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			t.explicit = cmd.Flags().Changed("config")
		},
	}
	cmd.SetOut(t.out)
	cmd.SetErr(t.errs)
	cmd.PersistentFlags().StringVar(&t.config, "config", config.DefaultPath, "configuration file; if not given, it may be missing")
	cmd.PersistentFlags().BoolVarP(&t.yes, "yes", "y", false, "don't ask")
	cmd.PersistentFlags().Var(&t.zone, "tz", "zone of times that are given without one, and of those that are shown")
	cmd.AddCommand(t.migrate(), t.verify(), t.stats(), t.task(), t.schedule(), t.owner(), t.group(), t.bulk(), t.demo())
	cmd.AddCommand(t.dead(), t.shard(), t.leader(), t.processes(), t.why(), t.queue(), t.pause(), t.resume(), t.configuration(), t.top(), t.healthcheck(), t.importing(),
		t.console(), t.version())
	return cmd
}

func (t *tool) load() (config.Config, error) {
	return config.Load(t.config, t.explicit, os.Environ(), t.sections...)
}

// open reads the configuration and makes the adapters. It logs only errors: a tool's user reads its answer, not a log.
func (t *tool) open() (*parts.Parts, error) {
	cfg, err := t.load()
	if err != nil {
		return nil, err
	}
	log := cmp.Or(t.log, slog.New(slog.NewTextHandler(t.errs, &slog.HandlerOptions{Level: slog.LevelError})))
	p, err := parts.Open(cfg, log, nil, store.Options{})
	if err == nil {
		p.Actor = who()
	}
	return p, err
}

// with runs fn on a console. It refuses a schema of another namespace than the configuration's.
func (t *tool) with(ctx context.Context, fn func(c *console.Console) error) error {
	return t.withParts(ctx, func(_ *parts.Parts, c *console.Console) error { return fn(c) })
}

// withParts is with for a command that also needs the servers.
func (t *tool) withParts(ctx context.Context, fn func(p *parts.Parts, c *console.Console) error) error {
	return t.on(func(p *parts.Parts) error {
		layout, err := p.Store.Layout(ctx)
		if err == nil {
			if err := p.CheckNamespace(layout); err != nil {
				return err
			}
			_ = p.Clock.Learn(ctx) // changes are put by it
			p.FollowClock()        // the console runs for long
		} // fn will report any other trouble with MySQL
		client, err := p.Scheduler(nil)
		if err != nil {
			return err
		}
		defer client.Close(context.WithoutCancel(ctx))
		servers := p.Servers()
		servers["ZooKeeper"] = func(ctx context.Context) error { return command.CheckElector(ctx, p) }
		c := console.New(console.Config{
			Namespace: p.Config.Namespace, Queues: p.Config.Queues, Limits: p.Config.Limits, Grace: p.Config.Daemon.Grace, Retention: p.Config.Daemon.ShortestRetention(),
			Actor: p.Actor, Audits: t.audits, Servers: servers,
		}, p.Store, p.Index, client)
		if t.page.KeysFile != "" {
			keys, err := encrypt.File(t.page.KeysFile)
			if err != nil {
				return fmt.Errorf("console.payload_keys_file: %w", err)
			}
			c = c.WithKeys(keys)
		}
		return fn(p, c)
	})
}

// on runs fn on the opened parts and closes them. An unreachable server becomes exit code 2.
func (t *tool) on(fn func(p *parts.Parts) error) error {
	p, err := t.open()
	if err != nil {
		return err
	}
	err = errors.Join(fn(p), p.Close(context.Background()))
	switch {
	case err == nil:
		return nil
	case store.Classify(err) == store.NoDatabase:
		return fmt.Errorf("mysql.dsn: create this schema, then run duetime migrate up: %w", err)
	case p.Away(err):
		return exit{exitAway, err}
	}
	return err
}
