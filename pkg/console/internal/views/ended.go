package views

import (
	"context"
	"fmt"
	"time"
)

const (
	endedRows   = 20_000           // newest changes that Ended reads
	endedSpan   = time.Minute      // that it reads at most
	endedLately = 10 * time.Second // whose ends make the rate, if they are enough
	enoughEnded = 10
)

// Ended is how fast tasks of a queue were done.
type Ended struct {
	Rate float64   // a second
	Last time.Time // the last one
}

// Ended returns, by queue, how fast tasks were done up to now: in the last ten seconds or, where that were few, in the last minute. A
// queue of which none was done is left out.
func (v Views) Ended(ctx context.Context, now time.Time) (map[string]Ended, error) {
	var rows []struct {
		Queue                       string
		Done, Lately, First, Newest int64
	}
	d := v.Store.Dialect()
	text := "SELECT queue, COUNT(*) AS done, SUM(finished_at >= ?) AS lately, MIN(finished_at) AS first, MAX(finished_at) AS newest FROM" +
		" (SELECT queue, state, finished_at FROM duetime_tasks" + d.Force(byChange.index) + " WHERE updated_at >= ? ORDER BY updated_at DESC LIMIT ?)" +
		" AS changed WHERE state = 1 AND finished_at > 0 GROUP BY queue"
	err := v.Store.DB().SelectContext(ctx, &rows, text, now.Add(-endedLately).UnixMilli(), now.Add(-endedSpan).UnixMilli(), endedRows)
	if err != nil {
		return nil, fmt.Errorf("read how fast tasks end: %w", err)
	}
	all := map[string]Ended{}
	for _, r := range rows {
		n, span := r.Done, min(endedSpan, now.Sub(time.UnixMilli(r.First)))
		if r.Lately >= enoughEnded {
			n, span = r.Lately, min(endedLately, span)
		}
		all[r.Queue] = Ended{float64(n) / max(time.Second, span).Seconds(), time.UnixMilli(r.Newest).UTC()}
	}
	return all, nil
}
