package consoleweb

import (
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

// health is the data of the view.
type health struct {
	frameRead
	freshness // of the frame
	Limits    []console.QueueLimit
	Change    console.ShardChange
	Horizon   time.Duration
	Partial   bool
	Due       int64
	Broken    int // shards without a complete memory
	Rate      float64
	Made      float64
	Waiting   int64         // tasks that are due in queues that are not paused
	WaitedMs  int64         // how long the oldest of them has waited
	grace     time.Duration // after which one of them is late
	Why       console.Explanation
}

// frameRead is what all viewers share.
type frameRead struct {
	console.Frame
	Leads     []console.Leader
	Processes []console.Process
}

const maxShardRows = 64

func readHealth(ctx context.Context, v *visit) (any, error) {
	out := health{grace: v.c.Grace()}
	var err error
	if out.Limits, err = v.c.Queues(ctx); err != nil {
		return nil, err
	}
	if out.Change, err = v.c.ShardChange(ctx, 0); err != nil {
		return nil, err
	}
	if out.Horizon, out.Partial, err = v.c.Horizon(ctx); err != nil {
		return nil, err
	}
	c := v.site.c
	read := readFor(ctx, v, "health", func(ctx context.Context) (frameRead, error) { return readFrame(ctx, c) })
	out.freshness = read.about()
	out.frameRead = read.value
	out.Why = whyLate(ctx, v)
	out.sum()
	return out, nil
}

func readFrame(ctx context.Context, c *console.Console) (frameRead, error) {
	frame, err := c.Frame(ctx)
	if err != nil {
		return frameRead{}, err
	}
	leads := frame.Leaders
	if frame.IndexErr == nil && !frame.NoIndex { // else Leaders, which says who was asked to resign, would fail too
		leads, err = c.Leaders(ctx)
	}
	if err != nil {
		return frameRead{}, err
	}
	processes, err := c.Processes(ctx)
	return frameRead{frame, leads, processes}, err
}

// sum adds up the frame, and puts the pauses into it as they are now.
func (h *health) sum() {
	for _, s := range h.Shards {
		h.Due += s.Due
		if s.Marker != console.MarkerComplete {
			h.Broken++
		}
	}
	queues := slices.Clone(h.Queues)
	for _, l := range h.Limits {
		i := slices.IndexFunc(queues, func(q console.Queue) bool { return q.Queue == l.Queue })
		if i < 0 {
			i, queues = len(queues), append(queues, console.Queue{Queue: l.Queue})
		}
		queues[i].PausedMs = l.PausedMs
	}
	h.Queues = queues
	for _, q := range h.Queues {
		if q.PausedMs == nil && q.OldestMs != nil {
			h.Waiting, h.WaitedMs = h.Waiting+q.Due, max(h.WaitedMs, h.NowMs-*q.OldestMs)
		}
	}
	if seconds := float64(h.WindowMs) / 1000; seconds > 0 {
		h.Rate, h.Made = float64(h.Fired)/seconds, float64(h.Scheduled)/seconds
	}
}

// ProcessClass is the style of a process's state.
func (h health) ProcessClass(p console.Process) string {
	switch p.State {
	case console.ProcessAlive:
		return "done"
	case console.ProcessStuck:
		return "dead"
	case console.ProcessSilent:
	}
	return "late"
}

// RanMs is how long a call had run when its process reported it.
func (h health) RanMs(p console.Process, c console.HandlerCall) int64 {
	return max(0, p.SeenMs-c.SinceMs)
}

// ShardRows are the shards that are listed.
func (h health) ShardRows() []console.Shard { return h.Shards[:min(len(h.Shards), maxShardRows)] }

// StateOf names what holds for a queue, the worst first: words of the pages and classes of their style.
func (h health) StateOf(q console.Queue) (all []queueState) {
	add := func(holds bool, word, class string) {
		if holds {
			all = append(all, queueState{word, class})
		}
	}
	late := q.OldestMs != nil && h.NowMs-*q.OldestMs > h.grace.Milliseconds()
	add(q.PausedMs != nil, "paused", "paused")
	add(late && q.PausedMs == nil, "late", "late")
	add(q.Workers == 0 && q.Due > 0, "noworker", "dead")
	add(q.Workers == 0 && q.Due == 0, "noworker", "paused")
	add(q.Degraded > 0, "degraded", "degraded")
	add(h.LimitOf(q.Queue).Limited, "limited", "limited")
	add(len(all) == 0, "runs", "done")
	return all
}

// queueState is a word about a queue.
type queueState struct{ Word, Class string }

// LimitOf is what bounds a queue.
func (h health) LimitOf(queue string) console.QueueLimit { return limitOf(h.Limits, queue) }

func limitOf(all []console.QueueLimit, queue string) console.QueueLimit {
	for _, l := range all {
		if l.Queue == queue {
			return l
		}
	}
	return console.QueueLimit{Queue: queue}
}
