package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/pkg/task"
)

const (
	compensateBatch   = 500 // ids in one message, some 20 kB
	compensateTries   = 3
	compensateTimeout = 3 * time.Second
)

// backlog is the bounded queue of ids on their way to compensation. Nobody waits for it: what doesn't fit is dropped and
// counted, for the sweeps find the rows anyway.
type backlog struct {
	to     Compensator
	logger *slog.Logger
	m      metrics
	queue  chan task.ID
	done   chan struct{} // closed when nothing more will be added

	mu     sync.Mutex
	closed bool
}

func newBacklog(cfg Config, to Compensator, m metrics) *backlog {
	return &backlog{to: to, logger: cfg.Logger, m: m, queue: make(chan task.ID, cfg.Backlog), done: make(chan struct{})}
}

// add queues the tasks' ids without waiting.
func (b *backlog) add(tasks []task.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dropped := 0
	for _, t := range tasks {
		if b.closed {
			dropped++
			continue
		}
		select {
		case b.queue <- t.ID:
		default:
			dropped++
		}
	}
	if dropped > 0 {
		count(b.m.compensations, resultDropped, dropped)
	}
}

func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
}

// run sends what is queued until the backlog is closed and empty. When ctx ends it drops the rest.
func (b *backlog) run(ctx context.Context) {
	for {
		select {
		case id := <-b.queue:
			b.send(ctx, b.fill(id))
		case <-b.done:
			if len(b.queue) == 0 {
				return
			}
		}
	}
}

// fill takes what else is there, up to one message.
func (b *backlog) fill(first task.ID) []task.ID {
	ids := []task.ID{first}
	for len(ids) < compensateBatch {
		select {
		case id := <-b.queue:
			ids = append(ids, id)
		default:
			return ids
		}
	}
	return ids
}

func (b *backlog) send(ctx context.Context, ids []task.ID) {
	if ctx.Err() != nil {
		count(b.m.compensations, resultDropped, len(ids))
		return
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, compensateTimeout)
		defer cancel()
		return struct{}{}, b.to.Compensate(ctx, task.Compensation{IDs: ids})
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(compensateTries))
	if err != nil {
		count(b.m.compensations, resultFailed, len(ids))
		b.logger.WarnContext(ctx, "compensation not sent, left to the sweeps", "n", len(ids), "err", err)
		return
	}
	count(b.m.compensations, resultOK, len(ids))
}
