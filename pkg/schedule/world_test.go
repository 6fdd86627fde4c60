package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var meal = task.NewKind[int]("meal.done")

func insideOf(tx *schedule.Tx) inside.Tx[*schedule.Tx] { return schedule.Inside(inside.Key{}, tx) }

// world is a client on a real store, with an index and a compensator that keep what they get.
type world struct {
	*schedule.Client
	worldtest.Recorder
	store *worldtest.Store

	mu      sync.Mutex
	away    bool // the index refuses
	flushed bool // the index has lost its memory
	owned   []protocol.Entry
	next    string // what the index answers as the place of the next page
	asked   []int  // shards
	sent    []task.ID
}

func (w *world) Put(ctx context.Context, tasks []task.Task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return errors.New("index is away")
	}
	return w.Recorder.Put(ctx, tasks)
}

func (w *world) OwnerPage(_ context.Context, shard int, _, kind, _ string, _ int) ([]protocol.Entry, string, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, "", "", errors.New("index is away")
	}
	w.asked = append(w.asked, shard)
	some := slices.DeleteFunc(slices.Clone(w.owned), func(e protocol.Entry) bool { return kind != "" && e.Kind != kind })
	if w.flushed {
		return some, "", "", nil
	}
	return some, w.next, "complete", nil
}

func (w *world) Compensate(_ context.Context, c protocol.Compensation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, c.IDs...)
	return nil
}

// put returns the versions of a task that reached the index, in order, once those on their way are there.
func (w *world) put(id task.ID) []int64 {
	_, _, _ = w.Tasks(context.Background(), "nobody", "") // waits for them, whatever it finds
	var versions []int64
	for _, t := range w.PutsOf(id) {
		versions = append(versions, t.Version)
	}
	return versions
}

func (w *world) compensated(id task.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.sent, id)
}

func (w *world) exists(t testing.TB, id task.ID) bool {
	t.Helper()
	rows, err := w.store.Get(t.Context(), nil, []task.ID{id})
	pipelinetest.Must(t, err)
	return len(rows) == 1
}

// make schedules a meal of the owner, due in an hour.
func (w *world) make(t testing.TB, owner string, opts ...task.Option) task.Task {
	t.Helper()
	row, err := w.Schedule(t.Context(), meal.New(owner, 1, task.In(time.Hour), opts...))
	pipelinetest.Must(t, err)
	_, _, err = w.Tasks(t.Context(), owner, "") // once it was put
	pipelinetest.Must(t, err)
	return row
}

// counters makes a business table with n rows of zero.
func (w *world) counters(t testing.TB, n int) {
	t.Helper()
	w.store.Exec("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
	for id := range n {
		w.store.Exec("INSERT INTO counters (id, n) VALUES (?, 0)", id)
	}
}

func add(ctx context.Context, q sqlx.ExecerContext, id int) error {
	_, err := q.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE id = ?", id)
	return err
}

// onStore is a client of a store, which may be another one of a deployment that has a client.
func onStore(t testing.TB, s *worldtest.Store) *world {
	t.Helper()
	w := &world{store: s}
	c, err := schedule.New(schedule.Config{
		IndexWait: 10 * time.Second, // what was put is looked at right after
		Logger:    slog.New(slog.DiscardHandler),
		Layout:    s.RecentLayout,
	}, s, w, w)
	pipelinetest.Must(t, err)
	w.Client = c
	t.Cleanup(func() { c.Close(context.Background()) })
	return w
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return onStore(t, worldtest.NewStore(t, "test", store.Options{}))
}

// behindProxy is a second client of a world's database, whose connections can be cut; it waits five seconds for answers.
func behindProxy(t testing.TB, direct *world) (*world, *pipelinetest.ToxicProxy) {
	t.Helper()
	cfg, err := mysql.ParseDSN(direct.store.DSN)
	pipelinetest.Must(t, err)
	proxy := pipelinetest.Proxy(t, cfg.Addr)
	cfg.Addr, cfg.ReadTimeout = proxy.Addr(), 5*time.Second
	return onStore(t, worldtest.OpenStore(t, cfg.FormatDSN(), store.Options{})), proxy
}

func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want one that is %v", err, want)
	}
}
