package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/settle"
)

const pauseInterval = time.Second // between looks at what operators ask

// watchRequests looks for pauses and limits until ctx ends.
func (w *Worker) watchRequests(ctx context.Context) {
	cfg := loop.Config{Name: "worker requests", Interval: pauseInterval, MaxBackoff: settle.MaxProbeInterval, Logger: w.cfg.Logger}
	_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { return loop.Result{}, w.applyRequests(ctx) }) // it ends with ctx alone
}

// applyRequests pauses queues, and sets their limits.
func (w *Worker) applyRequests(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pauseInterval)
	defer cancel()
	return errors.Join(w.applyPauses(ctx), w.applyLimits(ctx))
}

// applyPauses pauses and resumes queues as operators ask. A paused queue keeps its membership and its hints, takes in further
// ones up to the bound, and hands none out; what runs already runs to its end. Where the answer is not to be had all goes
// on as before.
func (w *Worker) applyPauses(ctx context.Context) error {
	paused, err := w.requests.Paused(ctx)
	if err != nil {
		return err
	}
	for _, q := range w.queues {
		_, asked := paused[q.name]
		if !q.hold.Pause(asked) {
			continue
		}
		if !asked {
			q.hold.ResetPatience()
		}
		q.log.InfoContext(ctx, "pause of a queue", slog.Bool("paused", asked))
	}
	return nil
}
