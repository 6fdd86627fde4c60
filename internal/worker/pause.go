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
	var errs []error
	for _, apply := range []func(context.Context) error{w.applyPauses, w.applyLimits} { // a slow one leaves the other its time
		bounded, cancel := context.WithTimeout(ctx, pauseInterval)
		errs = append(errs, apply(bounded))
		cancel()
	}
	return errors.Join(errs...)
}

// applyPauses pauses and resumes as operators ask, and handlers. A paused queue keeps its membership and its hints, takes in
// further ones up to the bound, and hands none out before the pause ends; what runs already runs to its end. Tasks of other
// pauses are put off. Where the answer is not to be had all goes on as before.
func (w *Worker) applyPauses(ctx context.Context) error {
	asked := time.Now()
	all, err := w.requests.Pauses(ctx)
	if err != nil {
		return err
	}
	w.settler.SetPauses(all, asked)
	ends := map[string]time.Time{} // by queue
	for _, p := range all {
		if p.OfQueue() {
			ends[p.Queue] = p.End()
		}
	}
	for _, q := range w.queues {
		q.hold.Pause(ends[q.name])
		if paused := q.hold.Paused(); paused != q.paused {
			q.paused = paused
			q.log.InfoContext(ctx, "pause of a queue", slog.Bool("paused", paused))
		}
	}
	return nil
}
