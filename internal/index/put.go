package index

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Put brings the index up to what the caller's committed rows say: pending tasks are added or moved, finished ones
// dropped, each unless a newer version stands there (which is no error: a later writer was faster). All shards share
// one round trip. It returns nil only if every shard took its part; a task.ShardsError names those that did not. On an
// error any part may have been written, and the same Put can be repeated. Of one task given twice, the higher version counts.
func (x *Index) Put(ctx context.Context, tasks []task.Task) error {
	head := x.calmly
	if slices.ContainsFunc(tasks, soon) {
		head = x.writing
	}
	puts := x.batches(x.scripts.put, head)
	drops := x.batches(x.scripts.drop, x.plain)
	for i, t := range latestFirst(newest(tasks)) {
		if s := task.ScoreOf(t); s != task.NoScore {
			puts.add(t, i, number(s))
		} else {
			drops.add(t, i, strconv.FormatInt(task.WindowedVersion(t.Version), 10))
		}
	}
	return x.run(ctx, append(puts.calls, drops.calls...)...)
}

// wakeHorizon is far more than a dispatcher ever sleeps, and than clocks differ by.
const wakeHorizon = 10 * time.Minute

// soon reports whether a dispatcher may have to be woken for the task.
func soon(t task.Task) bool { return time.Until(t.RunAt) < wakeHorizon }

// newest keeps the highest version of each task: a script looks at what stood before its call, and calls of one
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

// latestFirst sorts tasks as the script that puts them likes it best.
func latestFirst(tasks []task.Task) []task.Task {
	slices.SortFunc(tasks, func(a, b task.Task) int { return b.RunAt.Compare(a.RunAt) })
	return tasks
}

// number returns the score's shortest exact text; absent is the empty string.
func number(s task.Score) string {
	if s == task.NoScore {
		return ""
	}
	return strconv.FormatFloat(float64(s), 'f', -1, 64)
}
