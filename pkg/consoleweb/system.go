package consoleweb

import (
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

// systemView is the data of the view: queues, processes, leaders and shards.
type systemView struct {
	frameRead
	freshness // of the frame
	Limits    []console.QueueLimit
	Pauses    []console.Pause // of owners and kinds, the first shownPauses
	More      bool            // there are more pauses
	Change    console.ShardChange
	Horizon   time.Duration
	Partial   bool
	Due       int64
	Broken    int // shards without a complete memory
	Rate      float64
	Made      float64
	grace     time.Duration // after which a task that is due is late
}

// frameRead is what all viewers share.
type frameRead struct {
	console.Frame
	Leads     []console.Leader
	Processes []console.Process
}

const maxShards = 1024 // that are drawn

func readSystem(ctx context.Context, v *visit) (any, error) {
	out := systemView{grace: v.c.Grace()}
	var err error
	if out.Limits, err = v.c.Queues(ctx); err != nil {
		return nil, err
	}
	if err = out.readPauses(ctx, v.c); err != nil {
		return nil, err
	}
	if out.Change, err = v.c.ShardChange(ctx, 0); err != nil {
		return nil, err
	}
	if out.Horizon, out.Partial, err = v.c.Horizon(ctx); err != nil {
		return nil, err
	}
	c := v.site.c
	read := readFor(ctx, v, "system", func(ctx context.Context) (frameRead, error) { return readFrame(ctx, c) })
	out.freshness = read.about()
	out.frameRead = read.value
	out.sum()
	return out, nil
}

// readPauses leaves out those of whole queues, which stand with the queues.
func (s *systemView) readPauses(ctx context.Context, c *console.Console) error {
	all, err := c.Pauses(ctx)
	all = slices.DeleteFunc(all, func(p console.Pause) bool { return p.Of().OfQueue() })
	s.Pauses, s.More = all[:min(len(all), shownPauses)], len(all) > shownPauses
	return err
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

// Counted is a number of tasks that were counted up to another one, with a plus if there may be more.
func (v *visit) Counted(n, upTo int64) string {
	if n >= upTo {
		return v.N(n) + "+"
	}
	return v.N(n)
}

// entries counts what stands in the index.
func (f frameRead) entries() (n int64) {
	for _, s := range f.Shards {
		n += s.Due
	}
	return n
}

// degraded counts the workers that look in MySQL.
func (f frameRead) degraded() (workers int) {
	for _, q := range f.Queues {
		workers += q.Degraded
	}
	return workers
}

// sum adds up the frame, and puts the pauses into it as they are now.
func (s *systemView) sum() {
	for _, shard := range s.Shards {
		if shard.Marker != console.MarkerComplete {
			s.Broken++
		}
	}
	queues := slices.Clone(s.Queues)
	for _, l := range s.Limits {
		i := slices.IndexFunc(queues, func(q console.Queue) bool { return q.Queue == l.Queue })
		if i < 0 {
			i, queues = len(queues), append(queues, console.Queue{Queue: l.Queue})
		}
		queues[i].PausedMs = l.PausedMs
	}
	s.Queues, s.Due = queues, s.entries()
	if seconds := float64(s.WindowMs) / 1000; seconds > 0 {
		s.Rate, s.Made = float64(s.Fired)/seconds, float64(s.Scheduled)/seconds
	}
}

// ProcessClass is the style of a process's state.
func (systemView) ProcessClass(p console.Process) string {
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
func (systemView) RanMs(p console.Process, c console.HandlerCall) int64 {
	return max(0, p.SeenMs-c.SinceMs)
}

// Map is the shards that are drawn.
func (s systemView) Map() []console.Shard { return s.Shards[:min(len(s.Shards), maxShards)] }

// StateOf names what holds for a queue, the worst first: words of the pages and classes of their style.
func (s systemView) StateOf(q console.Queue) (all []queueState) {
	add := func(holds bool, word, class string) {
		if holds {
			all = append(all, queueState{word, class})
		}
	}
	late := q.OldestMs != nil && s.NowMs-*q.OldestMs > s.grace.Milliseconds()
	add(q.PausedMs != nil, "paused", "paused")
	add(late && q.PausedMs == nil, "late", "late")
	add(q.Workers == 0 && q.Due > 0, "noworker", "dead")
	add(q.Workers == 0 && q.Due == 0, "noworker", "paused")
	add(q.Degraded > 0, "degraded", "degraded")
	add(s.LimitOf(q.Queue).Limited, "limited", "limited")
	add(len(all) == 0, "runs", "done")
	return all
}

// queueState is a word about a queue.
type queueState struct{ Word, Class string }

// LimitOf is what bounds a queue.
func (s systemView) LimitOf(queue string) console.QueueLimit { return limitOf(s.Limits, queue) }

func limitOf(all []console.QueueLimit, queue string) console.QueueLimit {
	for _, l := range all {
		if l.Queue == queue {
			return l
		}
	}
	return console.QueueLimit{Queue: queue}
}
