// Package presence keeps a process's row in duetime_processes, by which operators see which processes are alive, and who
// leads, and what runs. It promises that a clean stop is written in the row, and that whatever happens to it never hurts the process:
// trouble is logged, and nobody waits for a report. No task is decided by these rows, and the epochs fence old leaders; a queue that
// a living process has is neither retired nor forgotten.
package presence

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/build"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

const (
	reportInterval = 5 * time.Second // store.ProcessAlive allows for two that are missed
	reportTimeout  = 2 * time.Second
	leaveTimeout   = time.Second // a stop must not wait for a server that is away
)

// Config says what a process is.
type Config struct {
	ID         string // of this run, as rows of tasks name it; a new one by default
	Role       string
	Configured []string               // queues of its configuration
	Queues     []string               // whose tasks it runs
	Kinds      []string               // for which it has a handler
	Calls      func() []protocol.Call // what it runs, the longest first; nil: it runs nothing
	Logger     *slog.Logger
}

// Reporter reports one process.
type Reporter struct {
	store *store.Store
	log   *slog.Logger
	row   store.Process
	calls func() []protocol.Call
	began time.Time
	epoch atomic.Int64
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

// Start reports the process every few seconds until Stop.
func Start(cfg Config, st *store.Store) *Reporter {
	host, _ := os.Hostname()
	ctx, stop := context.WithCancel(context.Background())
	r := &Reporter{
		store: st, log: cfg.Logger, calls: cfg.Calls, began: time.Now(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
		row: store.Process{
			ID: cmp.Or(cfg.ID, task.NewID().String()), Role: cfg.Role, Host: cmp.Or(host, "unknown"), Version: build.Read().Version,
			Detail: store.ProcessDetail{PID: os.Getpid(), Configured: cfg.Configured, Queues: cfg.Queues, Kinds: cfg.Kinds},
		},
	}
	go r.run(ctx)
	return r
}

// Lead reports that the process leads the term of this epoch; 0: that it leads none.
func (r *Reporter) Lead(epoch int64) {
	r.epoch.Store(epoch)
	loop.Rouse(r.wake)
}

// Stop writes that the process has stopped. If it can't, the process counts as silent.
func (r *Reporter) Stop() {
	r.stop()
	<-r.done
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	_ = r.store.EndProcess(ctx, r.row)
}

func (r *Reporter) run(ctx context.Context) {
	defer close(r.done)
	reported := false
	cfg := loop.Config{Name: "presence", Interval: reportInterval, Logger: r.log, Wake: r.wake}
	_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // it ends with ctx alone
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		if r.row.Detail.Epoch = r.epoch.Load(); r.calls != nil {
			r.row.Detail.Calls = r.calls()
		}
		err := r.store.ReportProcess(ctx, r.row, time.Since(r.began))
		if err == nil && !reported {
			err = r.store.ForgetProcesses(ctx)
			reported = err == nil
		}
		return loop.Result{}, err
	})
}
