// Command daemon is elected through ZooKeeper and repairs the index in Redis from the rows in MySQL. Run two; one
// leads.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/survey"
)

func main() { os.Exit(process.Main("daemon", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Daemon.Admin })
	if err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	reconciler, err := reconcile.New(reconcile.Config{
		Interval: cfg.Daemon.Interval, Lookahead: cfg.Daemon.Lookahead, Grace: cfg.Daemon.Grace,
		Retention: cfg.Daemon.Retention, RetentionByKind: cfg.Daemon.RetentionByKind, Horizon: cfg.Index.Horizon, Queues: cfg.Queues,
		Layout: p.Store.Layout, Logger: env.Log(), Metrics: env.Registry, Loops: loop.NewSuccesses(env.Registry),
	}, p.Store, p.Index, p.Stream)
	if err != nil {
		return err
	}
	env.Registry.MustRegister(survey.New(survey.Config{
		Queues: cfg.Queues, Layout: p.Store.Layout, Unhandled: unhandled(p.Store), OldestTransaction: oldestTransaction(p.Store, env.Log()),
		Behind:    func(ctx context.Context) (int64, error) { return p.Store.Behind(ctx, time.Minute, surveyedTasks) },
		Processes: processes(p.Store),
	}, p.Store, p.Index, p.Stream))
	lead := func(ctx context.Context, term *elect.Term) error { return reconciler.Lead(ctx, term.Epoch, term) }
	if cfg.Daemon.Witness {
		if lead, err = witnessed(env, p, lead); err != nil {
			return err
		}
	}
	return command.Stand(ctx, env, p, command.Candidate{Name: "daemon", Lead: lead})
}

const (
	// surveyedTasks is how many of the next pending tasks a survey reads. A task that waits for a worker of its kind is retried
	// within ten minutes, and most that wait for an earlier task within one, so they are among the first.
	surveyedTasks = 10_000
	// surveyBehind is how long a survey looks behind crowds of what is due.
	surveyBehind = 300 * time.Millisecond
)

func unhandled(s *store.Store) func(ctx context.Context) ([]protocol.Unhandled, error) {
	return func(ctx context.Context) ([]protocol.Unhandled, error) {
		waiting, _, at, err := s.Waiting(ctx, 0, surveyBehind)
		if err != nil {
			return nil, err
		}
		return s.Unhandled(ctx, waiting, at, surveyedTasks)
	}
}

// processes counts each role's processes in each state: a state that no process is in has the figure 0.
func processes(s *store.Store) func(ctx context.Context) ([]survey.Processes, error) {
	return func(ctx context.Context) ([]survey.Processes, error) {
		listed, err := s.ListProcesses(ctx)
		n := map[survey.Processes]int{}
		for _, p := range listed {
			for _, state := range []string{store.StateAlive, store.StateStuck, store.StateSilent} {
				n[survey.Processes{Role: p.Role, State: state}] += 0
			}
			n[survey.Processes{Role: p.Role, State: p.State()}]++
		}
		var all []survey.Processes
		for of, processes := range n {
			of.Processes = processes
			all = append(all, of)
		}
		return all, err
	}
}

// oldestTransaction logs once that the user may not see transactions.
func oldestTransaction(s *store.Store, log *slog.Logger) func(ctx context.Context) (time.Duration, bool, error) {
	var once sync.Once
	return func(ctx context.Context) (time.Duration, bool, error) {
		age, err := s.OldestTransaction(ctx)
		if errors.Is(err, store.ErrNoProcessRight) {
			once.Do(func() {
				log.InfoContext(ctx, "no metric duetime_database_oldest_transaction_seconds: the user lacks the right PROCESS", slog.Any("err", err))
			})
			return 0, false, nil
		}
		return age, err == nil, err
	}
}
