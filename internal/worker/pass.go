package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Outcome is what came of one hint in a Pass.
type Outcome struct {
	ID      task.ID
	Result  string // as the metrics name it; empty when the row was locked by somebody, or MySQL was away
	Settled bool   // false: it would be held, for a later look
	Err     error  // of the handler, if it was called and failed
}

// Pass takes the hints through the worker's own transactions once, in the order of their moments, on the caller's goroutine, and returns
// when each is settled or would have to wait. It needs neither a stream nor Run, and is meant for tests and for tools.
// The error says only that ctx ended or that MySQL is away.
func (w *Worker) Pass(ctx context.Context, hints []protocol.Hint) ([]Outcome, error) {
	if err := w.clock.Learn(ctx); err != nil { // for as long as the caller allows
		return nil, err
	}
	now := w.clock.Now()
	all := make([]*hold.Hint, len(hints))
	for i, hint := range hints {
		all[i] = hold.NewHint(hint, now, w.cfg.Patience)
		all[i].LookAt = now
	}
	for l := range hold.Lanes {
		for open := w.ready(all, l); len(open) > 0; {
			for chunk := range slices.Chunk(open, w.cfg.batch(l)) {
				w.settler.Settle(ctx, chunk, nil)
			}
			left := w.ready(all, l)
			if len(left) >= len(open) {
				break // nothing moves
			}
			open = left
		}
	}
	w.letters.queue.Flush(ctx)
	w.hooks.flush(ctx)
	out := make([]Outcome, len(all))
	for i, h := range all {
		out[i] = Outcome{ID: h.ID, Result: h.Result, Settled: h.Settled, Err: h.Failure.Err}
	}
	if closed, _ := w.gate.NextProbe(); closed {
		w.gate.Open()
		return out, errAway
	}
	return out, ctx.Err()
}

var errAway = errors.New("database is away")

// ready returns the hints of the lane that can be looked at now, by moment and id.
func (w *Worker) ready(all []*hold.Hint, l hold.Lane) []*hold.Hint {
	var open []*hold.Hint
	now := w.clock.Now()
	for _, h := range all {
		if !h.Settled && h.Lane == l && !h.LookAt.After(now) {
			open = append(open, h)
		}
	}
	slices.SortFunc(open, func(a, b *hold.Hint) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), a.ID.Compare(b.ID)) })
	return open
}
