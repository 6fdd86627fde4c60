package command

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/parts"
)

const resignEvery = time.Second // between a leader's looks at what operators ask

// untilAsked leads until an operator asks terms up to this one to end: by a row in MySQL, so that no port of a process
// changes anything. The term ends as when its function gives up: its place goes to the next in the queue at once, and
// this process stands last, after a rest.
func untilAsked(ctx context.Context, p *parts.Parts, c Candidate, term *elect.Term) error {
	ctx, end := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer end()
	cfg := loop.Config{Name: "resign " + c.Name, Interval: resignEvery, Logger: p.Log}
	looking.Go(func() {
		_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // it ends with ctx alone
			asked, err := p.Store.Resigned(ctx, c.Name)
			if err == nil && asked >= term.Epoch {
				p.Log.InfoContext(ctx, "resigning as an operator asked", slog.String("kind", c.Name), slog.Int64("epoch", term.Epoch))
				end()
			}
			return loop.Result{}, err
		})
	})
	return c.Lead(ctx, term)
}
