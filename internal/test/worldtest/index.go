package worldtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Nowhere is an index and a stream that store nothing: what is listed comes from the database.
type Nowhere struct{}

// Put forgets the tasks.
func (Nowhere) Put(context.Context, []task.Task) error { return nil }

// Offer forgets the tasks.
func (Nowhere) Offer([]task.Task) {}

// OwnerPage answers as an index that has lost its memory.
func (Nowhere) OwnerPage(context.Context, int, string, string, string, int) ([]protocol.Entry, string, string, error) {
	return nil, "", "", nil
}

// Compensate forgets the request.
func (Nowhere) Compensate(context.Context, protocol.Compensation) error { return nil }

// Bury forgets the letters.
func (Nowhere) Bury(context.Context, []protocol.DeadLetter) error { return nil }

// Recorder is an index that remembers what is put, and has no memory for lists.
type Recorder struct {
	Nowhere
	mu   sync.Mutex
	puts []task.Task
}

// Put remembers the tasks.
func (r *Recorder) Put(_ context.Context, tasks []task.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, tasks...)
	return nil
}

// Offer remembers the tasks.
func (r *Recorder) Offer(tasks []task.Task) { _ = r.Put(context.Background(), tasks) }

// Puts returns all that was put, in order.
func (r *Recorder) Puts() []task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.puts)
}

// PutsOf returns what was put of one task, in order.
func (r *Recorder) PutsOf(id task.ID) []task.Task {
	return slices.DeleteFunc(r.Puts(), func(t task.Task) bool { return t.ID != id })
}

// Direct is a worker's index that puts at once, on the worker's goroutine. What is refused is lost.
type Direct struct {
	Index interface {
		Put(ctx context.Context, tasks []task.Task) error
	}
}

// Offer puts the tasks.
func (d Direct) Offer(tasks []task.Task) { _ = d.Index.Put(context.Background(), tasks) }

// OpenIndex opens an index that waits for answers of a slow machine, and a connection past its guards.
func OpenIndex(t testing.TB, cfg index.Config) (*index.Index, *redis.Client) {
	t.Helper()
	cfg.ReadTimeout = time.Minute
	x, err := index.Open(cfg)
	pipelinetest.Must(t, err)
	raw := redis.NewClient(&redis.Options{Addr: cfg.Addrs[0], Protocol: 2})
	t.Cleanup(func() { pipelinetest.Must(t, errors.Join(raw.Close(), x.Close())) })
	return x, raw
}

// Acknowledge removes claimed entries from a shard's due set, as the next claim does, and returns the newer epoch that fences
// the caller, 0 if none.
func Acknowledge(ctx context.Context, x *index.Index, shard int, epoch int64, entries []protocol.Entry) (int64, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	c, err := x.Claim(ctx, shard, epoch, time.UnixMilli(0), 0, 1, entries)
	return c.Fenced, err
}

// OwnerEntries lists all of an owner's pending tasks by their run time. whole is false from a loss of the shard's memory to the
// end of its rebuild: then tasks may be missing.
func OwnerEntries(ctx context.Context, x *index.Index, shard int, owner string) (entries []protocol.Entry, whole bool, err error) {
	place, whole := "", true
	for first := ""; ; {
		page, next, generation, err := x.OwnerPage(ctx, shard, owner, "", place, 1000)
		if err != nil {
			return nil, false, err
		}
		if place == "" {
			first = generation
		}
		whole = whole && generation != "" && generation == first
		entries = append(entries, page...)
		if place = next; place == "" {
			return entries, whole, nil
		}
	}
}
