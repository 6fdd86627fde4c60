package dispatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// limit is how long a test waits for an expected event: the machine may be slow and shared.
const limit = time.Minute

// base is the database's time in tests that call passes.
var base = time.UnixMilli(1_790_000_000_000).UTC()

func at(ms int64) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }

// world is a dispatcher on a real index, with a stream that tests can make fail.
type world struct {
	*Dispatcher
	index  *index.Index
	raw    *redis.Client // past the index's guards
	ns     string
	stream *faulty
	term   *term
	now    *time.Time
}

// onEach runs the same case over redis-server and over miniredis.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, pipelinetest.Redis(t).Addr(), Config{}))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, worldtest.Memory(t).Addr(), Config{}))
	})
}

// newWorld makes a world of two shards, unless cfg says otherwise, whose clock stands at base.
func newWorld(t testing.TB, addr string, cfg Config) *world {
	t.Helper()
	ns, now := pipelinetest.Namespace(t), base
	x, err := index.Open(index.Config{Namespace: ns, Addrs: []string{addr}, ReadTimeout: limit})
	pipelinetest.Must(t, err)
	raw := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
	t.Cleanup(func() { pipelinetest.Must(t, errors.Join(raw.Close(), x.Close())) })
	w := &world{index: x, raw: raw, ns: ns, stream: newFaulty(ns), term: &term{}, now: &now}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return *w.now }
	}
	if cfg.Layout == nil {
		cfg.Layout = func(context.Context) (protocol.Layout, error) { return protocol.Layout{Shards: 2, ShardsEver: 2}, nil }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	w.Dispatcher, err = New(cfg, x, w.stream)
	pipelinetest.Must(t, err)
	return w
}

// shard makes a shard that polls under an epoch, with a health of its own or a shared one.
func (w *world) shard(number int, epoch int64, h *health) *shard {
	if h == nil {
		h = &health{term: w.term}
	}
	return newShard(w.Dispatcher, number, epoch, h, 2)
}

// pass runs one pass that must not fail.
func pass(t testing.TB, s *shard) loop.Result {
	t.Helper()
	res, err := s.pass(t.Context())
	pipelinetest.Must(t, err)
	return res
}

// put writes a pending task of shard 0, due ms after base, and returns it.
func (w *world) put(t testing.TB, queue string, ms int64) task.Task {
	t.Helper()
	one := pending(queue, at(ms))
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{one}))
	return one
}

func pending(queue string, due time.Time) task.Task {
	return task.Task{
		ID: task.NewID(), Kind: "pet.meal_finished", Queue: queue, Owner: "ann", Subject: "pet-7",
		State: task.Pending, DueAt: due, RunAt: due, Version: 1,
	}
}

// stands reports the task's score in the due set.
func (w *world) stands(t testing.TB, of task.Task) protocol.Score {
	t.Helper()
	s, err := w.index.Standings(t.Context(), []task.Task{of})
	pipelinetest.Must(t, err)
	return s[0].Due
}

// count returns how many members the due set of shard 0 holds.
func (w *world) count(t testing.TB) int64 {
	t.Helper()
	counts, err := w.index.Counts(t.Context(), 1)
	pipelinetest.Must(t, err)
	return counts[0]
}

// faulty is the in-process stream with a valve in front of each call.
type faulty struct {
	*stream.Kafka

	mu    sync.Mutex
	valve func(e protocol.Entry) error // nil lets everything through
	told  []protocol.Compensation
	sent  map[task.ID]int
}

func newFaulty(ns string) *faulty {
	return &faulty{
		Kafka: streamtest.New(stream.Config{Namespace: ns, Queues: []string{"default", "bad"}, Partitions: 4}),
		sent:  map[task.ID]int{},
	}
}

func (f *faulty) refuse(valve func(e protocol.Entry) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.valve = valve
}

// try calls the valve without the lock, since the valve may use the stream.
func (f *faulty) try(e protocol.Entry) error {
	f.mu.Lock()
	valve := f.valve
	f.mu.Unlock()
	if valve == nil {
		return nil
	}
	return valve(e)
}

func (f *faulty) Publish(ctx context.Context, entries []protocol.Entry, epoch int64) []error {
	errs, failed := make([]error, len(entries)), false
	for i, e := range entries {
		errs[i] = f.try(e)
		if errs[i] == nil {
			if each := f.Kafka.Publish(ctx, entries[i:i+1], epoch); each != nil {
				errs[i] = each[0]
			}
		}
		if errs[i] != nil {
			failed = true
			continue
		}
		f.mu.Lock()
		f.sent[e.ID]++
		f.mu.Unlock()
	}
	if failed {
		return errs
	}
	return nil
}

func (f *faulty) Compensate(ctx context.Context, c protocol.Compensation) error {
	if err := f.try(protocol.Entry{}); err != nil {
		return err
	}
	f.mu.Lock()
	f.told = append(f.told, c)
	f.mu.Unlock()
	return f.Kafka.Compensate(ctx, c)
}

// hints returns how often the task's hint was published.
func (f *faulty) hints(of task.Task) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[of.ID]
}

func (f *faulty) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.told)
}

// term counts the progress of a term.
type term struct{ progress atomic.Int64 }

func (*term) Fenced(int64) {}
func (t *term) Progress()  { t.progress.Add(1) }

var errRefused = errors.New("refused")
