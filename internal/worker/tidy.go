package worker

import (
	"context"
	"errors"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/settle"
)

const (
	tidyInterval  = 250 * time.Millisecond // between looks for what is stuck
	probeInterval = time.Second            // between probes of the database, and how long one may take
)

// tidy probes the clock and opens the gate, and expires what is stuck, until ctx ends.
func (w *Worker) tidy(ctx context.Context) {
	cfg := loop.Config{
		Name: "worker", Interval: tidyInterval, Wake: w.gate.Closed(), Succeeded: w.turned, Logger: w.cfg.Logger,
	}
	_ = loop.Run(ctx, cfg, w.tidyPass) // it ends with ctx alone
}

func (w *Worker) tidyPass(ctx context.Context) (loop.Result, error) {
	closed, wait := w.gate.NextProbe()
	switch {
	case closed && wait > 0:
		return loop.Result{Next: wait}, nil
	case closed || w.clock.Local().Sub(w.probed) >= probeInterval:
		err := w.probe(ctx)
		timeout := !closed && !w.timeout && errors.Is(err, context.DeadlineExceeded)
		if w.timeout = timeout; timeout {
			return loop.Result{Next: settle.MinProbeInterval}, nil // once may be a hiccup
		}
		if err != nil && ctx.Err() == nil {
			w.gate.Close(ctx, err)
			w.gate.ProbeFailed()
			return loop.Result{Next: settle.MinProbeInterval}, nil
		}
		if closed && err == nil {
			w.resume(ctx)
		}
	}
	held := 0
	for _, q := range w.queues {
		q.hold.AdjustForClockStep(w.cfg.Patience)
		if !closed && !q.hold.Paused() {
			w.settler.CountExpired(q.hold.Expire(w.cfg.Patience))
		}
		held += q.hold.Len()
	}
	w.metrics.held.Set(float64(held))
	return loop.Result{}, nil
}

func (w *Worker) resume(ctx context.Context) {
	for _, q := range w.queues {
		q.hold.ResetPatience()
	}
	w.gate.Open()
	w.cfg.Logger.InfoContext(ctx, "resumed, database is back")
}

// probe learns the database's clock.
func (w *Worker) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeInterval)
	defer cancel()
	if err := w.clock.Learn(ctx); err != nil {
		return err
	}
	w.probed = w.clock.Local()
	return nil
}

// firstProbe waits for the database: without its clock there is no telling what is due.
func (w *Worker) firstProbe() bool {
	cfg := loop.Config{Name: "worker clock", MaxBackoff: settle.MaxProbeInterval, Logger: w.cfg.Logger}
	ctx, known := context.WithCancel(w.intake)
	defer known()
	_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // it ends with ctx alone
		if err := w.probe(ctx); err != nil {
			return loop.Result{}, err
		}
		known()
		return loop.Result{}, nil
	})
	return w.intake.Err() == nil
}
