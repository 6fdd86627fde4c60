// Package command starts the commands: it reads the configuration, sets up log, traces and admin address, and lets
// elected processes stand for election while servers are away. It owns no protocol; each command wires its parts in its
// main.
package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/tracing"
	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/internal/wait"
)

// Configure reads the configuration, sets up the log, and serves the process's admin address. Every process calls it
// first.
// The sections are the process's own part of the configuration.
func Configure(
	ctx context.Context, env *process.Env, admin func(config.Config) string, sections ...config.Section,
) (config.Config, error) {
	cfg, err := config.Load(env.Flags.Config, env.Flags.Explicit, os.Environ(), sections...)
	if err != nil {
		return cfg, err
	}
	env.Namespace = cfg.Namespace
	if err := env.SetLog(cfg.Log.Level, cfg.Log.Format); err != nil {
		return cfg, err
	}
	index.LogTo(env.Log())
	token, err := cfg.PProf.Secret()
	if err != nil {
		return cfg, err
	}
	stop, err := tracing.Start(ctx, tracing.Config{
		Process: env.Name, Endpoint: cfg.Trace.Endpoint, Sample: cfg.Trace.Sample, Logger: env.Log(),
	})
	if err != nil {
		return cfg, err
	}
	if stop != nil {
		env.OnStop("traces", stop)
	}
	return cfg, env.ServeAdmin(ctx, admin(cfg), string(token))
}

// Candidate is an elected process.
type Candidate struct {
	Name string // of the election and of its epoch counter
	Lead func(ctx context.Context, term *elect.Term) error
}

// retryMax bounds how long a candidate that resigned stays out of the queue: after a long outage the queue may be
// empty.
const retryMax = 3 * time.Second

// Stand waits for the schema, joins the election, and leads whenever this process is elected, until ctx ends. The process
// is ready once its ZooKeeper session stands, leader or not. A term's error that retrying cannot fix, such as a session
// timeout that the broker refuses, ends the process.
func Stand(ctx context.Context, env *process.Env, p *parts.Parts, c Candidate) error {
	metrics := newElectionMetrics(env.Registry, c.Name)
	if err := p.AwaitSchema(ctx); err != nil {
		return err
	}
	reporter := presence.Start(presence.Config{Role: c.Name, Configured: p.Config.Queues, Logger: p.Log}, p.Store)
	defer reporter.Stop()
	elector, err := openElector(p, func(leading bool, epoch int64) {
		metrics.changed(leading, epoch)
		if !leading {
			epoch = 0
		}
		reporter.Lead(epoch)
	})
	if err != nil {
		return err
	}
	connected := elector.Connected
	metrics.connected.Store(&connected)
	env.OnStop("zookeeper", func(context.Context) error { return elector.Close() })

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Clock.Run(ctx) })
	group.Go(func() error { return p.AwaitIndex(ctx) })
	group.Go(func() error { return p.AwaitStream(ctx) })
	group.Go(func() error {
		err := elector.Ready(ctx)
		if err == nil {
			env.Ready()
		}
		return wait.UnlessStopped(ctx, permanently(err))
	})
	group.Go(func() error {
		ctx, giveUp := context.WithCancelCause(ctx)
		defer giveUp(nil)
		err := elector.Lead(ctx, c.Name, func(ctx context.Context, term *elect.Term) error {
			err := permanently(leadUntilResigned(ctx, p, c, term))
			if wait.IsFatal(err) {
				giveUp(err)
			}
			return err
		})
		if cause := context.Cause(ctx); wait.IsFatal(cause) {
			return cause
		}
		return permanently(err)
	})
	return group.Wait()
}

// CheckElector returns an error unless ZooKeeper gives this configuration a session.
func CheckElector(ctx context.Context, p *parts.Parts) error {
	elector, err := openElector(p, func(bool, int64) {})
	if err != nil {
		return err
	}
	return errors.Join(elector.Ready(ctx), elector.Close())
}

func openElector(p *parts.Parts, changed func(leading bool, epoch int64)) (*elect.ZooKeeper, error) {
	cfg := p.Config.ZooKeeper
	password, err := cfg.Secret()
	if err != nil {
		return nil, err
	}
	tls, err := trust.Client("zookeeper.tls", trust.Files(cfg.TLS))
	if err != nil {
		return nil, err
	}
	return elect.NewZooKeeper(elect.Config{
		Servers: cfg.Servers, SessionTimeout: cfg.SessionTimeout,
		TLS: tls, Username: cfg.Username, Password: string(password),
		Root: "/" + p.Config.Namespace, RetryMax: retryMax, Logger: p.Log,
		OnChange: func(_ string, leading bool, epoch int64) { changed(leading, epoch) },
	}, p.Store)
}

// permanently marks an error as fatal if its Permanent method says that retrying can't help.
func permanently(err error) error {
	var p interface{ Permanent() bool }
	if errors.As(err, &p) && p.Permanent() {
		return wait.Fatal(err)
	}
	return err
}

const resignInterval = time.Second // between a leader's two reads of operators' requests

// leadUntilResigned leads until an operator asks terms up to this one to end. The request is a row in MySQL, so that no
// port of a process changes anything. The term ends as if the candidate had given up: the next process in the queue leads
// at once, and this process joins the queue last, after a delay.
func leadUntilResigned(ctx context.Context, p *parts.Parts, c Candidate, term *elect.Term) error {
	ctx, end := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer end()
	cfg := loop.Config{Name: "resign " + c.Name, Interval: resignInterval, Logger: p.Log}
	looking.Go(func() {
		_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // returns only when ctx ends
			asked, err := p.Store.Resigned(ctx, c.Name)
			if err == nil && asked >= term.Epoch {
				p.Log.InfoContext(ctx, "resigning as an operator asked", slog.String("kind", c.Name), slog.Int64("epoch", term.Epoch))
				end()
			}
			return loop.Result{}, err
		})
	})
	return c.Lead(ctx, term)
}

// electionMetrics reports whether an elected process leads.
type electionMetrics struct {
	leader    prometheus.Gauge
	epoch     prometheus.Gauge
	terms     prometheus.Counter
	connected atomic.Pointer[func() bool] // to ZooKeeper; nil until the elector is open
}

// leaderGauges names the gauge of each election. Two names let one alert on each find a missing leader.
var leaderGauges = map[string]string{"event": "duetime_leader", "daemon": "duetime_daemon_leader"}

func newElectionMetrics(reg prometheus.Registerer, name string) *electionMetrics {
	f, label := promauto.With(reg), prometheus.Labels{"name": name}
	e := &electionMetrics{
		leader: f.NewGauge(prometheus.GaugeOpts{
			Name: leaderGauges[name], Help: "1 while this " + name + " process leads, else 0.",
		}),
		epoch: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_epoch", Help: "Epoch of the newest term that this process has led; 0 before the first.", ConstLabels: label,
		}),
		terms: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_leader_transitions_total", Help: "Terms that this process has begun to lead.", ConstLabels: label,
		}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duetime_zookeeper_connected", Help: "1 while this process is connected to ZooKeeper, else 0.",
	}, e.zookeeper)
	return e
}

func (e *electionMetrics) zookeeper() float64 {
	if connected := e.connected.Load(); connected != nil && (*connected)() {
		return 1
	}
	return 0
}

func (e *electionMetrics) changed(leading bool, epoch int64) {
	if !leading {
		e.leader.Set(0)
		return
	}
	e.leader.Set(1)
	e.epoch.Set(float64(epoch))
	e.terms.Inc()
}
