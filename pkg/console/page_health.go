package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/index"
)

// health is the data of the view.
type health struct {
	frameRead
	Ready    bool   // the frame was read
	AgeMs    int64  // of the frame
	Failed   string // why the frame could not be read anew
	Limits   []QueueLimit
	Change   ShardChange
	Horizon  time.Duration
	Partial  bool
	Away     string // why Redis did not answer; empty if it did
	Due      int64
	Broken   int // shards without a complete memory
	Degraded int // workers
	Rate     float64
	Made     float64
}

// frameRead is what takes longer to read the more tasks there are. All viewers share it.
type frameRead struct {
	Frame
	Leads []Leader
}

const (
	frameAge      = 2 * time.Second        // for which a reading is new
	frameIdle     = 5                      // or this multiple of the time that it took: a large table is not read all day
	framePatience = 150 * time.Millisecond // for the first reading; the view comes without it then
	maxShardRows  = 64
)

func readHealth(ctx context.Context, v *visit) (any, error) {
	out := health{}
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
	read := v.site.frames.get(ctx, func(ctx context.Context) (frameRead, error) { return readFrame(ctx, c) })
	if out.Ready = !read.at.IsZero(); out.Ready {
		out.AgeMs = time.Since(read.at).Milliseconds()
	}
	if read.err != nil {
		out.Failed = read.err.Error()
	}
	out.frameRead = read.value
	out.sum()
	return out, nil
}

func readFrame(ctx context.Context, c *Console) (frameRead, error) {
	frame, err := c.Frame(ctx)
	if err != nil {
		return frameRead{}, err
	}
	leads, err := c.Leaders(ctx) // which says who was asked to resign
	if index.Away(err) {
		leads, err = frame.Leaders, nil
	}
	return frameRead{frame, leads}, err
}

// sum adds up the frame, and puts the pauses into it as they are now.
func (h *health) sum() {
	if h.IndexErr != nil {
		h.Away = h.IndexErr.Error()
	}
	for _, s := range h.Shards {
		h.Due += s.Due
		if s.Marker != MarkerComplete {
			h.Broken++
		}
	}
	queues := slices.Clone(h.Queues)
	for _, l := range h.Limits {
		i := slices.IndexFunc(queues, func(q Queue) bool { return q.Queue == l.Queue })
		if i < 0 {
			i, queues = len(queues), append(queues, Queue{Queue: l.Queue})
		}
		queues[i].PausedMs = l.PausedMs
	}
	h.Queues = queues
	for _, q := range h.Queues {
		h.Degraded += q.Degraded
	}
	if seconds := float64(h.WindowMs) / 1000; seconds > 0 {
		h.Rate, h.Made = float64(h.Fired)/seconds, float64(h.Scheduled)/seconds
	}
}

// ShardRows are the shards that are listed.
func (h health) ShardRows() []Shard { return h.Shards[:min(len(h.Shards), maxShardRows)] }

// LimitOf is what bounds a queue.
func (h health) LimitOf(queue string) QueueLimit {
	for _, l := range h.Limits {
		if l.Queue == queue {
			return l
		}
	}
	return QueueLimit{Queue: queue}
}

// shared is a reading that all viewers share. It is read anew in the background when somebody asks and it is no longer new; who
// asks gets the last one at once.
type shared[T any] struct {
	mu      sync.Mutex
	last    reading[T]
	until   time.Time     // for which the last one is new
	running chan struct{} // closed at the end of the reading that goes on; nil if none does
}

// reading is what was read, when, and why the last try failed.
type reading[T any] struct {
	value T
	at    time.Time // zero: never
	err   error
}

func (s *shared[T]) get(ctx context.Context, read func(ctx context.Context) (T, error)) reading[T] {
	s.mu.Lock()
	if s.running == nil && !time.Now().Before(s.until) {
		s.running = make(chan struct{})
		go s.read(context.WithoutCancel(ctx), read, s.running) // the next viewer gets it, if this one leaves
	}
	last, running := s.last, s.running
	s.mu.Unlock()
	if running == nil || !last.at.IsZero() && time.Since(last.at) < frameIdle*frameAge {
		return last
	}
	select {
	case <-running:
	case <-ctx.Done():
	case <-time.After(framePatience):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *shared[T]) read(ctx context.Context, read func(ctx context.Context) (T, error), done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	began := time.Now()
	value, err := read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.err = err; err == nil {
		s.last = reading[T]{value: value, at: time.Now()}
	}
	s.until, s.running = time.Now().Add(max(frameAge, frameIdle*time.Since(began))), nil
	close(done)
}

// forget makes the next viewer read anew: something was changed.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}
