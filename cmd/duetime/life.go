package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// mostHistory bounds the lines of one task that are shown.
const mostHistory = 10_000

// happened is one line of a task's life.
type happened struct {
	AtMs   int64  `json:"at_ms"`
	Event  string `json:"event"`
	Actor  string `json:"actor"`
	Detail string `json:"detail"`
}

// lifeOf puts the lines between what the row itself tells: when the task was made, and how it ended.
func lifeOf(row task.Task, lines []task.Event) []happened {
	life := []happened{{AtMs: row.CreatedAt.UnixMilli(), Event: "scheduled", Actor: task.ActorService}}
	for _, e := range lines {
		life = append(life, happened{e.At.UnixMilli(), e.Name, e.Actor, e.Detail})
	}
	// A change whose transaction began before a failed attempt may have been written after it.
	slices.SortStableFunc(life[1:], func(a, b happened) int { return cmp.Compare(a.AtMs, b.AtMs) })
	if end, ok := endOf(row); ok && !slices.ContainsFunc(lines, func(e task.Event) bool { return ends(e, row) }) {
		life = append(life, end)
	}
	return life
}

// endOf is the end as the row tells it.
func endOf(row task.Task) (happened, bool) {
	end := happened{AtMs: row.FinishedAt.UnixMilli(), Event: row.State.String(), Detail: row.LastError}
	switch row.State {
	case task.Done:
		end.Actor = task.ActorWorker
		end.Detail = row.FinishedAt.Sub(row.FiredFrom()).Round(time.Millisecond).String() + " after it was due"
	case task.Cancelled, task.Dead:
	default:
		return end, false
	}
	return end, true
}

// ends reports whether a line is that of the row's end.
func ends(e task.Event, row task.Task) bool {
	return e.At.Equal(row.FinishedAt) && slices.Contains(
		[]string{task.EventCancelled, task.EventSkipped, task.EventDead, task.EventDiscarded}, e.Name)
}
