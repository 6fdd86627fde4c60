package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/pkg/task"
)

// compensationLimit is how many messages the daemon is given at once.
const compensationLimit = 100

// Compensate sends the request to the compensation topic, in several messages where it names many, and waits for the
// acknowledgement of all replicas, for at most five seconds. An error means unknown: some may have been sent.
func (k *Kafka) Compensate(ctx context.Context, c task.Compensation) error {
	values, err := encodeCompensation(c)
	if err != nil {
		return err
	}
	messages := make([]kafka.Message, len(values))
	for i, v := range values {
		messages[i] = kafka.Message{Topic: k.names.compensate().topic, Value: v}
	}
	return k.send(ctx, messages)
}

// Bury sends dead letters of at most 16 KiB each, cut to fit, to the dead topic and waits for the acknowledgement of all
// replicas, for at most five seconds. An error means unknown: some may have been sent.
func (k *Kafka) Bury(ctx context.Context, letters []task.DeadLetter) error {
	messages := make([]kafka.Message, len(letters))
	for i, d := range letters {
		v, err := encodeDead(d)
		if err != nil {
			return err
		}
		messages[i] = kafka.Message{Topic: k.names.dead(), Key: deadKey(d), Value: v}
	}
	return k.send(ctx, messages)
}

// send writes messages of one topic and answers the first error.
func (k *Kafka) send(ctx context.Context, messages []kafka.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	for _, err := range k.write(ctx, messages[0].Topic, messages) {
		if err != nil {
			return err
		}
	}
	return nil
}

// compensator hands the compensations of a session to the daemon.
type compensator struct {
	fn      func(context.Context, []task.Compensation) error
	metrics *metrics
	logger  *slog.Logger
}

func (c compensator) run(ctx context.Context, s rawSession) error {
	for {
		recs, err := s.take(ctx, compensationLimit)
		if errors.Is(err, ErrSessionOver) || ctx.Err() != nil {
			return nil //nolint:nilerr // the end of a session is no failure
		}
		if err != nil {
			return err
		}
		if !c.deliver(ctx, c.understand(recs)) {
			return nil
		}
		if err := s.Commit(ctx, after(recs)); err != nil {
			return fmt.Errorf("compensations: %w", err)
		}
	}
}

func (c compensator) understand(recs []record) []task.Compensation {
	var out []task.Compensation
	for _, r := range recs {
		comp, err := decodeCompensation(r.value)
		if err != nil {
			c.metrics.undecodable.WithLabelValues("compensation").Inc()
			c.logger.Warn("compensation dropped", "partition", r.partition, "offset", r.offset, "err", err)
			continue
		}
		out = append(out, comp)
	}
	return out
}

// deliver calls fn until it accepts; false means that ctx ended first.
func (c compensator) deliver(ctx context.Context, comps []task.Compensation) bool {
	if len(comps) == 0 {
		return true
	}
	for pause := firstBackoff; ; pause = min(2*pause, compensateBackoff) {
		err := c.fn(ctx, comps)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.logger.Warn("compensations will be tried again", "n", len(comps), "err", err)
		if sleep(ctx, pause) != nil {
			return false
		}
	}
}

// after returns the next offset to read of each partition.
func after(recs []record) map[int]int64 {
	next := map[int]int64{}
	for _, r := range recs {
		next[r.partition] = max(next[r.partition], r.offset+1)
	}
	return next
}
