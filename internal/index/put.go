package index

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Put writes the caller's committed rows into the index: it puts pending tasks, and drops finished ones and those that have
// moved beyond the horizon, each unless the index has a newer version (which is no error: a later writer was faster). All
// shards share one round trip. Put returns
// nil only if every shard took its tasks; a protocol.ShardsError names the others. After an error any part may have been
// written, and the same Put can be repeated. If a task is given twice, the higher version counts.
func (x *Index) Put(ctx context.Context, tasks []task.Task) error {
	head, quietFrom := x.quietHead, x.now().Add(wakeWindow)
	if slices.ContainsFunc(tasks, func(t task.Task) bool { return t.RunAt.Before(quietFrom) }) {
		head = x.wakingHead
	}
	puts := x.batches(x.scripts.put, head)
	drops := x.batches(x.scripts.drop, x.dueHead)
	var until time.Time
	if x.putUntil != nil {
		until = x.putUntil(ctx)
	}
	for i, t := range latestFirst(newest(tasks)) {
		switch s := protocol.ScoreOf(t); {
		case s != protocol.NoScore && (until.IsZero() || s.RunAt().Before(until)):
			puts.add(t, i, number(s))
		case s == protocol.NoScore || t.Version > 1: // a new task beyond the horizon has no entry
			drops.add(t, i, strconv.FormatInt(protocol.WindowedVersion(t.Version), 10))
		}
	}
	return x.run(ctx, append(puts.calls, drops.calls...)...)
}

// wakeWindow is how far ahead a task is due for which no dispatcher need be woken: much longer than a dispatcher ever sleeps.
// It is counted on the database's clock, since a host's clock may be wrong by more.
const wakeWindow = 10 * time.Minute

// newest keeps the highest version of each task: a script compares with the scores before its call, and calls of one
// pipeline have no order.
func newest(tasks []task.Task) []task.Task {
	at := make(map[task.ID]int, len(tasks))
	kept := make([]task.Task, 0, len(tasks))
	for _, t := range tasks {
		i, seen := at[t.ID]
		switch {
		case !seen:
			at[t.ID] = len(kept)
			kept = append(kept, t)
		case t.Version > kept[i].Version:
			kept[i] = t
		}
	}
	return kept
}

// latestFirst sorts tasks by descending time, as put.lua needs them to write fast.
func latestFirst(tasks []task.Task) []task.Task {
	slices.SortFunc(tasks, func(a, b task.Task) int { return b.RunAt.Compare(a.RunAt) })
	return tasks
}

// number returns the score's shortest exact text; empty for NoScore.
func number(s protocol.Score) string {
	if s == protocol.NoScore {
		return ""
	}
	return strconv.FormatFloat(float64(s), 'f', -1, 64)
}
