package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const obeyEvery = time.Second // between looks at what operators ask

// watch looks for pauses until ctx ends.
func (w *Worker) watch(ctx context.Context) {
	cfg := loop.Config{Name: "worker pauses", Interval: obeyEvery, MaxBackoff: pauseMost, Logger: w.Logger}
	_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { return loop.Result{}, w.obey(ctx) }) // it ends with ctx alone
}

// obey pauses and resumes queues as operators ask. A paused queue keeps its membership and its hints, takes in further
// ones up to the bound, and hands none out; what runs already runs to its end. Where the answer is not to be had all goes
// on as before.
func (w *Worker) obey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, obeyEvery)
	defer cancel()
	paused, err := w.store.Paused(ctx)
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
		w.Logger.InfoContext(ctx, "pause of a queue", slog.String("queue", q.name), slog.Bool("paused", asked))
	}
	return nil
}
