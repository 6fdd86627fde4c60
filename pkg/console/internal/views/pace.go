package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	paceBudget = 60_000 // index entries that Pace counts
	paceRows   = 400    // rows that it reads for a minute, and sampleBudget for all

	waited     = time.Second            // from its run time to its end: so long a task has waited for workers
	loadedPart = 0.9                    // of a second's ends had waited: the workers were at their limit
	minLoad    = 500 * time.Millisecond // of ends at the limit; fewer, and sampled, say nothing about how fast workers are
	minLoaded  = 20                     // of them
	queuedFor  = 10 * time.Second       // no hint comes so late
	drifted    = 5 * time.Second        // no way to workers changes its length by so much
)

// ending is the end of a task: when, and how long after its run time.
type ending struct {
	at  time.Time
	lag time.Duration
}

// Pace returns, for each of some minutes from a moment on, how many tasks a second workers ended while tasks waited for them. It
// is 0 for a minute in which too few did: what workers happen to end says nothing about what they can. Where there are many tasks
// it reads some of them.
func (v Views) Pace(ctx context.Context, from time.Time, minutes int) ([]float64, error) {
	paces := make([]float64, minutes)
	for _, order := range changes {
		if err := v.raisePaces(ctx, order, spansOf(from, time.Minute, minutes), paces); err != nil {
			return nil, err
		}
	}
	return paces, nil
}

// raisePaces raises each minute's pace to that of the ends that stand in one index. A run of ends that is cut where rows have moved to the
// other table has the same pace on both sides.
func (v Views) raisePaces(ctx context.Context, order indexOrder, spans []span, paces []float64) error {
	counts, err := v.countSpans(ctx, order, spans, paceBudget)
	if err != nil {
		return err
	}
	whole := func(i int) float64 { return float64(counts[i].entries) }
	rows := sampleRows(counts, whole, int64(min(paceRows*len(spans), sampleBudget)))
	const list = "state, run_at AS ran, COALESCE(finished_at, 0) AS ended"
	text, args := order.sampleSQL(v.Store.Dialect(), spans, counts, rows, list)
	if text == "" {
		return nil
	}
	var sample []struct {
		Span       int
		State      task.State
		Ran, Ended int64
	}
	if err := v.Store.DB().SelectContext(ctx, &sample, text, args...); err != nil {
		return fmt.Errorf("read when tasks were done: %w", err)
	}
	read, ends := make([]int, len(spans)), make([][]ending, len(spans))
	for _, r := range sample {
		if read[r.Span]++; r.State == task.Done && r.Ended > 0 {
			ends[r.Span] = append(ends[r.Span], ending{time.UnixMilli(r.Ended), time.Duration(r.Ended-r.Ran) * time.Millisecond})
		}
	}
	for i := range paces {
		paces[i] = max(paces[i], loadedPace(ends[i])*whole(i)/float64(max(1, read[i])))
	}
	return nil
}

// loadedPace returns how many of the ends came in a second while tasks waited for workers; 0 if none did for long enough.
func loadedPace(ends []ending) float64 {
	slices.SortFunc(ends, func(a, b ending) int { return a.at.Compare(b.at) })
	runs := loadedRuns(ends)
	if len(runs) == 0 {
		return 0
	}
	longest := slices.MaxFunc(runs, func(a, b []ending) int { return cmp.Compare(len(a), len(b)) })
	took := longest[len(longest)-1].at.Sub(longest[0].at)
	if len(longest) < minLoaded || took < minLoad || !queued(longest, took) {
		return 0
	}
	return float64(len(longest)-1) / took.Seconds()
}

// loadedRuns parts sorted ends into seconds, and returns the ends of consecutive seconds in which nearly all tasks had waited.
func loadedRuns(ends []ending) (runs [][]ending) {
	began, last := 0, int64(-1) // of the run that goes on
	for i := 0; i < len(ends); {
		second, next, late := ends[i].at.Unix(), i, 0
		for ; next < len(ends) && ends[next].at.Unix() == second; next++ {
			if ends[next].lag >= waited {
				late++
			}
		}
		if float64(late) >= loadedPart*float64(next-i) {
			if second != last+1 || len(runs) == 0 {
				began, runs = i, append(runs, nil)
			}
			runs[len(runs)-1], last = ends[began:next], second
		}
		i = next
	}
	return runs
}

// queued reports whether tasks waited for workers, not for their hints: those that come late, as without Kafka, do so by some
// seconds and all alike. Where tasks wait for workers, the wait grows with a crowd, shrinks after an outage, or is long.
func queued(ends []ending, took time.Duration) bool {
	quarter := max(1, len(ends)/4)
	first, last := meanLag(ends[:quarter]), meanLag(ends[len(ends)-quarter:])
	changed := (last - first).Abs()
	return changed >= took/2 || changed >= drifted || min(first, last) >= queuedFor
}

func meanLag(ends []ending) time.Duration {
	sum := time.Duration(0)
	for _, e := range ends {
		sum += e.lag
	}
	return sum / time.Duration(len(ends))
}
