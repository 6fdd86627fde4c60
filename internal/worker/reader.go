package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Reader runs the handlers of a mux in transactions of a client that wants an owner's due tasks done before it reads: see
// schedule.Tx.SettleDue. It is for our own wiring.
type Reader struct {
	settler *settle.Settler
	hooks   *hooks
	stop    context.CancelFunc // the hooks hear of what waits
	leave   context.CancelFunc // and of nothing more
	running sync.WaitGroup
}

// NewReader makes a reader for the kinds in mux. Of the configuration, what bounds one handler's call counts, and Limits: a reader
// runs no task of a queue that has a limit. Close ends it.
func NewReader(cfg Config, mux *worker.Mux, store Store) (*Reader, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if mux == nil || len(mux.Kinds()) == 0 {
		return nil, errors.New("worker: no kind has a handler")
	}
	byKind, hooks, refused := worker.Inside(inside.Key{}, mux)
	if err := cmp.Or(cfg.checkTimeouts(handlers(byKind).infos(mux.Queues())), refused); err != nil {
		return nil, err
	}
	r := &Reader{hooks: newHooks(hooks, newHookMetrics(cfg.Metrics), cfg.Logger)}
	stuck := func(err error) { cfg.Logger.Error("reader stuck", slog.Any("err", err)) }
	r.settler = settle.New(settle.Config{
		BatchTime: cfg.BatchTime, HandlerTimeout: cfg.HandlerTimeout, Patience: cfg.Patience, Limits: cfg.Limits, Kinds: cfg.Kinds,
		BeforeSchedule: cfg.BeforeSchedule, OnEvents: r.hooks.adder(),
		Logger: cfg.Logger, Metrics: cfg.Metrics, Tracer: cfg.Tracer.Tracer(tracerName), OnStuck: stuck,
	}, byKind, store, loop.NewClock(store.Clock, cfg.Logger, nil), nowhere{}, nowhere{})
	ctx, stop := context.WithCancel(context.Background())
	calls, leave := context.WithCancel(context.Background())
	r.stop, r.leave = stop, leave
	r.running.Go(func() { r.hooks.run(ctx, calls) })
	return r, nil
}

// Close returns when the mux's hooks have heard of everything, or shortly after leaveTimeout: then what waits is dropped. A nil
// reader has none.
func (r *Reader) Close() {
	if r == nil {
		return
	}
	defer r.leave()
	defer time.AfterFunc(leaveTimeout, r.leave).Stop()
	r.stop()
	r.running.Wait()
}

// SettleDue runs the owner's due tasks in the caller's transaction.
func (r *Reader) SettleDue(ctx context.Context, tx *schedule.Tx, owner string) (schedule.Settled, error) {
	return r.settler.SettleDue(ctx, tx, owner)
}

// SettleOrder runs the due tasks of an order key in the caller's transaction.
func (r *Reader) SettleOrder(ctx context.Context, tx *schedule.Tx, key string) (schedule.Settled, error) {
	return r.settler.SettleOrder(ctx, tx, key)
}

// RunNow runs one task in the caller's transaction.
func (r *Reader) RunNow(ctx context.Context, tx *schedule.Tx, id task.ID) (task.Task, error) {
	return r.settler.RunNow(ctx, tx, id)
}

// nowhere takes what a reader has none of: what follows its commits is its callers'.
type nowhere struct{}

func (nowhere) Offer([]task.Task)          {}
func (nowhere) Bury([]protocol.DeadLetter) {}
