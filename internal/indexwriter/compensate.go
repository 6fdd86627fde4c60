package indexwriter

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxIDsPerMessage  = 500 // some 20 kB
	compensateTries   = 3
	compensateTimeout = 3 * time.Second // of one message
)

// compensations sends ids of tasks to the compensation topic. Nobody waits for them. Ids that don't fit are dropped and
// counted: the sweeps find their rows.
type compensations struct {
	to      Compensator
	logger  *slog.Logger
	metrics metrics
	ids     *batcher.Batcher[task.ID, struct{}]
}

func newCompensations(cfg Config, to Compensator, m metrics) *compensations {
	c := &compensations{to: to, logger: cfg.Logger, metrics: m}
	c.ids = batcher.New(batcher.Config[task.ID]{Calls: 1, Items: maxIDsPerMessage, Queue: cfg.Backlog}, c.send)
	return c
}

// add adds the tasks' ids, without waiting.
func (c *compensations) add(tasks []task.Task) {
	c.count(resultDropped, c.ids.Add(protocol.IDs(tasks)...))
}

// send sends ids to the daemon. After the end of ctx it drops them.
func (c *compensations) send(ctx context.Context, ids []task.ID) ([]struct{}, error) {
	if ctx.Err() != nil {
		c.count(resultDropped, len(ids))
		return nil, ctx.Err()
	}
	interval := backoff.NewExponentialBackOff()
	interval.InitialInterval, interval.MaxInterval = 100*time.Millisecond, time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, compensateTimeout)
		defer cancel()
		return struct{}{}, c.to.Compensate(ctx, protocol.Compensation{IDs: ids})
	}, backoff.WithBackOff(interval), backoff.WithMaxTries(compensateTries))
	if err != nil {
		c.count(resultFailed, len(ids))
		c.logger.WarnContext(ctx, "compensation not sent, left to the sweeps", "n", len(ids), "err", err)
		return nil, err
	}
	c.count(resultOK, len(ids))
	return nil, nil
}

func (c *compensations) count(result string, n int) { count(c.metrics.compensations, result, n) }
