package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/store"
)

const (
	frameWindow  = 10 * time.Second // for rates and lag
	frameTimeout = 15 * time.Second // for reading one frame
)

// Frame is the pipeline's state at one moment, from MySQL and Redis: one picture of top.
type Frame struct {
	Namespace string           `json:"namespace"`
	NowMs     int64            `json:"now_ms"` // of the database
	States    map[string]int64 `json:"states"`
	MaxState  int64            `json:"max_state"` // of States: there may be more than a number that reaches it
	WindowMs  int64            `json:"window_ms"` // of the next three figures
	Scheduled int64            `json:"scheduled"` // rows made
	Fired     int64            `json:"fired"`     // rows done
	LagMs     Lag              `json:"lag_ms"`    // of the rows done; zero when there are none
	Queues    []Queue          `json:"queues"`    // paused ones first, then those with most tasks due
	Leaders   []Leader         `json:"leaders"`
	Shards    []Shard          `json:"shards"`
	IndexErr  error            `json:"-"`         // Redis is away: the frame has no shards
	NoIndex   bool             `json:"-"`         // there is none, as in package embedded: the frame has no shards and no leaders
	Unhandled []Unhandled      `json:"unhandled"` // among the tasks whose next try comes first
	TookMs    int64            `json:"took_ms"`   // to read all this

	// Witness is what the deployment's witness has judged of the tasks that it schedules; zero where there is none.
	Witness struct {
		Judged int    `json:"judged"`           // plays of the last ten minutes, and those with a fault
		Broken int    `json:"broken"`           // plays with a fault, within the retention
		Faults string `json:"faults,omitempty"` // of the newest of these, with commas
	} `json:"witness,omitzero"`
}

// Queue is what waits in a queue.
type Queue struct {
	Queue    string `json:"queue"`
	Due      int64  `json:"due"`                        // due and not done
	Cut      bool   `json:"cut,omitempty"`              // Due is a lower bound
	OldestMs *int64 `json:"oldest_due_ms,omitempty"`    // the earliest run time of the due tasks
	PausedMs *int64 `json:"paused_since_ms,omitempty"`  // absent if it is not paused
	Degraded int    `json:"degraded_workers,omitempty"` // for which looks at MySQL stand in for its hints
	Workers  int    `json:"workers"`                    // living processes that say that they run its tasks
}

// Frame reads a frame. It reads a bounded part of the rows, and those that changed within the window.
func (c *Console) Frame(ctx context.Context) (Frame, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	live, err := c.store.Live(ctx, frameWindow)
	if err != nil {
		return Frame{}, err
	}
	queues, err := c.QueueNames(ctx)
	if err != nil {
		return Frame{}, err
	}
	var shards []indexShard
	if c.index != nil {
		if shards, err = c.indexShards(ctx); err != nil && !c.indexAway(err) {
			return Frame{}, err
		}
	}
	f := Frame{
		Namespace: c.cfg.Namespace, NowMs: live.Now.UnixMilli(), States: map[string]int64{}, MaxState: store.MaxCounted,
		WindowMs: frameWindow.Milliseconds(), Scheduled: live.Scheduled, Fired: live.Fired,
		LagMs:  lagOf(live.LagP50, live.LagP99, live.LagMax),
		Queues: queuesOf(queues, live), Shards: shardsOf(shards),
		Unhandled: unhandledOf(live.Unhandled), TookMs: time.Since(began).Milliseconds(),
	}
	if f.IndexErr, f.NoIndex = err, c.index == nil; !f.NoIndex {
		f.Leaders = leadersOf(live.Epochs, live.Processes, shards)
	}
	f.Witness.Judged, f.Witness.Broken, f.Witness.Faults = live.Witness.Judged, live.Witness.Faulty, live.Witness.Faults
	for state, n := range live.States {
		f.States[state.String()] = n
	}
	return f, nil
}

// queuesOf lists the deployment's queues and all others that are paused, degraded, or have tasks due.
func queuesOf(names []string, live store.Live) []Queue {
	names = slices.Concat(names, slices.Collect(maps.Keys(live.Due)), slices.Collect(maps.Keys(live.Paused)),
		slices.Collect(maps.Keys(live.Degraded)))
	slices.Sort(names)
	var queues []Queue
	workers := map[string]int{}
	for _, p := range live.Processes {
		for _, name := range p.Detail.Queues {
			workers[name]++
		}
	}
	for _, name := range slices.Compact(names) {
		waiting := live.Due[name]
		queues = append(queues, Queue{
			name, waiting.Tasks, waiting.Cut || !live.Whole, unixMs(waiting.Oldest), unixMs(live.Paused[name]), live.Degraded[name], workers[name],
		})
	}
	slices.SortStableFunc(queues, func(a, b Queue) int {
		return cmp.Or(comparePaused(a, b), -cmp.Compare(a.Due, b.Due))
	})
	return queues
}

func comparePaused(a, b Queue) int {
	switch {
	case (a.PausedMs != nil) == (b.PausedMs != nil):
		return 0
	case a.PausedMs != nil:
		return -1
	}
	return 1
}
