package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// maxRefusals is how often Kafka may refuse an entry, while it takes others, until the entry is passed over.
const maxRefusals = 3

// refusal counts how often an entry was refused while Kafka took others.
type refusal struct {
	count int
	taken int64 // health's count when it was last refused
}

// publish sends the hints, and sorts the entries into those to acknowledge and those to try again. It returns an error
// when any is left to try again, so that the shard backs off; the others are acknowledged all the same.
//
// What was refused before goes without the others, so that it can't take them down with it (one message can fail the
// whole batch that it is in).
func (s *shard) publish(ctx context.Context, entries []task.Entry) error {
	before := s.health.taken.Load()
	var fresh, suspect []task.Entry
	for _, e := range entries {
		switch _, refused := s.refusals[e.Member]; {
		case e.Err != nil:
			s.passOver(ctx, e, e.Err)
		case refused:
			suspect = append(suspect, e)
		default:
			fresh = append(fresh, e)
		}
	}
	refused, cause := s.send(ctx, fresh)
	again, why := s.send(ctx, suspect)
	if why != nil {
		cause = why
	}
	refused = append(refused, again...)
	if len(refused) >= s.d.cfg.Limit && s.tell(ctx) == nil {
		// They fill the claim, so nothing behind them can show that Kafka takes others; this message did.
		s.health.taken.Add(1)
	}
	return s.refuse(ctx, refused, before, cause)
}

// send publishes the entries in one call. It notes those that Kafka took, passes over those that it refuses for good,
// and returns the rest.
func (s *shard) send(ctx context.Context, entries []task.Entry) (refused []task.Entry, cause error) {
	if len(entries) == 0 {
		return nil, nil
	}
	took, began := 0, time.Now()
	tracing, end := s.traced(ctx, len(entries))
	errs := s.d.stream.Publish(tracing, entries, s.epoch)
	s.d.metrics.publishing.Observe(time.Since(began).Seconds())
	now := s.d.cfg.Now()
	for i, e := range entries {
		var err error
		if errs != nil {
			err = errs[i]
		}
		var permanent interface{ Permanent() bool }
		switch {
		case err == nil:
			took++
			s.acked = append(s.acked, e)
			s.d.metrics.lag.Observe(max(now.Sub(e.Score.RunAt()).Seconds(), 0))
		case errors.As(err, &permanent) && permanent.Permanent():
			s.passOver(ctx, e, err)
		default:
			refused, cause = append(refused, e), err
		}
	}
	end(len(entries) - took)
	if took > 0 {
		s.health.taken.Add(1)
		s.d.metrics.published.Add(float64(took))
	}
	return refused, cause
}

// refuse counts the refusals of entries while Kafka takes others, and passes over those that had too many. When Kafka
// takes nothing it is Kafka's fault, and nobody is counted. before is health's count when the pass began to publish.
func (s *shard) refuse(ctx context.Context, entries []task.Entry, before int64, cause error) error {
	earlier := s.refusals
	s.refusals = make(map[string]refusal, len(entries))
	taken := s.health.taken.Load()
	for _, e := range entries {
		r, known := earlier[e.Member]
		if !known {
			r.taken = before
		}
		if taken > r.taken {
			r = refusal{count: r.count + 1, taken: taken}
		}
		if r.count >= maxRefusals {
			s.passOver(ctx, e, cause)
			continue
		}
		s.refusals[e.Member] = r
	}
	if len(s.refusals) == 0 {
		return nil
	}
	return fmt.Errorf("%d of the claimed hints refused: %w", len(s.refusals), cause)
}

// passOver takes an entry out of the due set without having published it.
func (s *shard) passOver(ctx context.Context, e task.Entry, cause error) {
	s.d.metrics.passedOver.Inc()
	s.d.cfg.Logger.WarnContext(ctx, "hint passed over",
		"shard", s.number, "task_id", e.ID, "kind", e.Kind, "queue", e.Queue, "err", cause)
	s.acked = append(s.acked, e)
}
