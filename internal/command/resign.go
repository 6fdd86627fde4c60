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

const resignInterval = time.Second // between a leader's two reads of operators' requests

// leadUntilResigned leads until an operator asks terms up to this one to end. The request is a row in MySQL, so that no
// port of a process changes anything. The term ends as if the candidate had given up: the next process in the queue leads
// at once, and this process joins the queue last, after a delay.
func leadUntilResigned(ctx context.Context, p *parts.Parts, c Candidate, term *elect.Term) error {
	ctx, end := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer end()
	cfg := loop.Config{Name: "resign " + c.Name, Interval: resignInterval, Logger: p.Log}
	looking.Go(func() {
		_ = loop.Run(ctx, cfg, func(ctx context.Context) (loop.Result, error) { // returns only when ctx ends
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
