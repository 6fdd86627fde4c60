package console

import (
	"context"
	"sync"
	"time"
)

// health is the data of the view.
type health struct {
	Frame
	Limits    []QueueLimit
	Leads     []Leader
	Change    ShardChange
	Horizon   time.Duration
	Partial   bool
	IndexAway string // why Redis did not answer; empty if it did
	Due       int64
	Broken    int // shards without a complete memory
	Degraded  int // workers
	Rate      float64
	Made      float64
}

const (
	frameAge      = 2 * time.Second // for which one reading serves all viewers
	frameIdle     = 5               // a reading serves for this multiple of its own time: a large table is not read all day
	maxShardsRows = 64
)

func readHealth(ctx context.Context, v *visit) (any, error) {
	return v.site.frames.get(func() (health, error) { return healthOf(ctx, v.site.c) })
}

func healthOf(ctx context.Context, c *Console) (health, error) {
	frame, err := c.Frame(ctx)
	if err != nil {
		return health{}, err
	}
	out := health{Frame: frame, Leads: frame.Leaders}
	if out.Limits, err = c.Queues(ctx); err != nil {
		return health{}, err
	}
	if out.Change, err = c.ShardChange(ctx, 0); err != nil {
		return health{}, err
	}
	if out.Horizon, out.Partial, err = c.Horizon(ctx); err != nil {
		return health{}, err
	}
	if frame.IndexErr != nil {
		out.IndexAway = frame.IndexErr.Error()
	} else if out.Leads, err = c.Leaders(ctx); err != nil {
		return health{}, err
	}
	for _, s := range frame.Shards {
		out.Due += s.Due
		if s.Marker != MarkerComplete {
			out.Broken++
		}
	}
	for _, q := range frame.Queues {
		out.Degraded += q.Degraded
	}
	if seconds := float64(frame.WindowMs) / 1000; seconds > 0 {
		out.Rate, out.Made = float64(frame.Fired)/seconds, float64(frame.Scheduled)/seconds
	}
	return out, nil
}

// ShardRows are the shards that are listed.
func (h health) ShardRows() []Shard { return h.Shards[:min(len(h.Shards), maxShardsRows)] }

// LimitOf is what bounds a queue.
func (h health) LimitOf(queue string) QueueLimit {
	for _, l := range h.Limits {
		if l.Queue == queue {
			return l
		}
	}
	return QueueLimit{Queue: queue}
}

// shared is a reading that all viewers share for a while.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

// get reads anew if the last reading is too old. Viewers who come meanwhile wait for the same reading.
func (s *shared[T]) get(read func() (T, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.Before(s.until) {
		return s.value, nil
	}
	value, err := read()
	if err != nil {
		return nil, err
	}
	s.value, s.until = value, time.Now().Add(max(frameAge, frameIdle*time.Since(began)))
	return value, nil
}

// forget makes the next viewer read anew: something was changed.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}
