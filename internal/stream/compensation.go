package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	maxCompensationBytes = 64 << 10
	maxCompensationItems = 1000 // ids, or shards, in one message that is read
	itemsPerMessage      = 500  // ids, and shards, in one message that is written
	maxShard             = 1 << 20
	compensationMessages = 100 // most messages in one call of the daemon

	// A task whose put failed may be due at once: the daemon must not sleep long when the server is back.
	minCompensationDelay = 100 * time.Millisecond
	maxCompensationDelay = 500 * time.Millisecond
)

// encodeCompensation splits a compensation into messages of bounded size.
func encodeCompensation(c protocol.Compensation) ([][]byte, error) {
	var out [][]byte
	for len(c.IDs) > 0 || len(c.Rebuild) > 0 {
		n, r := min(len(c.IDs), itemsPerMessage), min(len(c.Rebuild), itemsPerMessage)
		b, err := json.Marshal(protocol.Compensation{IDs: c.IDs[:n], Rebuild: c.Rebuild[:r]})
		if err != nil {
			return nil, fmt.Errorf("encode compensation: %w", err)
		}
		out = append(out, b)
		c.IDs, c.Rebuild = c.IDs[n:], c.Rebuild[r:]
	}
	return out, nil
}

func decodeCompensation(b []byte) (c protocol.Compensation, err error) {
	if len(b) > maxCompensationBytes {
		return c, fmt.Errorf("compensation of more than %d bytes", maxCompensationBytes)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return protocol.Compensation{}, fmt.Errorf("compensation is not readable: %w", err)
	}
	if len(c.IDs) > maxCompensationItems || len(c.Rebuild) > maxCompensationItems || len(c.IDs)+len(c.Rebuild) == 0 {
		return protocol.Compensation{}, fmt.Errorf("compensation must name 1 to %d ids or shards", maxCompensationItems)
	}
	for _, s := range c.Rebuild {
		if s < 0 || s > maxShard {
			return protocol.Compensation{}, errors.New("compensation's shard is out of range")
		}
	}
	return c, nil
}

// compensator gives the compensations of a session to the daemon.
type compensator struct {
	fn      func(context.Context, []protocol.Compensation) error
	metrics *metrics
	logger  *slog.Logger
}

func (c compensator) run(ctx context.Context, s Records) error {
	for {
		records, err := s.Fetch(ctx, compensationMessages)
		if errors.Is(err, ErrSessionOver) || ctx.Err() != nil {
			return nil //nolint:nilerr // the end of a session is no failure
		}
		if err != nil {
			return err
		}
		if !c.deliver(ctx, c.decode(records)) {
			return nil
		}
		if err := s.Commit(ctx, offsetsAfter(records)); err != nil {
			return fmt.Errorf("compensations: %w", err)
		}
	}
}

func (c compensator) decode(records []broker.Record) []protocol.Compensation {
	var out []protocol.Compensation
	for _, r := range records {
		comp, err := decodeCompensation(r.Value)
		if err != nil {
			c.metrics.undecodable.WithLabelValues("compensation").Inc()
			c.logger.Warn("compensation dropped", "partition", r.Partition, "offset", r.Offset, "err", err)
			continue
		}
		out = append(out, comp)
	}
	return out
}

// deliver calls fn until it returns nil; false means that ctx ended first.
func (c compensator) deliver(ctx context.Context, comps []protocol.Compensation) bool {
	if len(comps) == 0 {
		return true
	}
	delays := backoff.ExponentialBackOff{InitialInterval: minCompensationDelay, MaxInterval: maxCompensationDelay, Multiplier: 2}
	for {
		err := c.fn(ctx, comps)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.logger.Warn("compensations will be tried again", "n", len(comps), "err", err)
		if loop.Sleep(ctx, delays.NextBackOff()); ctx.Err() != nil {
			return false
		}
	}
}

// offsetsAfter returns the next offset to read of each partition.
func offsetsAfter(records []broker.Record) map[int]int64 {
	next := map[int]int64{}
	for _, r := range records {
		next[r.Partition] = max(next[r.Partition], r.Offset+1)
	}
	return next
}
