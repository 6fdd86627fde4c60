package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

const (
	limit  = time.Minute // how long a test waits for an expected event: the machine may be slow and shared
	shards = 4
)

// world is a reconciler on a real database and a real index, with a clock that the test sets.
type world struct {
	*Reconciler
	rows   *worldtest.Store
	sets   *index.Index
	hints  *stream.Kafka
	raw    *redis.Client // past the index's guards
	ns     string
	now    time.Time
	up     time.Duration // of the index server
	hooked func()        // called once, after the first call of a pass; may be nil
}

// base is the database's time when a test begins.
var base = time.UnixMilli(1_790_000_000_000).UTC()

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	return newWorldOn(t, worldtest.Schema(t), index.Config{Addrs: []string{pipelinetest.Redis(t).Addr()}}, cfg)
}

// onMiniredis makes a world whose Redis a test can make fail.
func onMiniredis(t testing.TB) (*world, *worldtest.MemoryRedis) {
	t.Helper()
	mini := worldtest.Memory(t)
	return newWorldOn(t, worldtest.Schema(t), index.Config{Addrs: []string{mini.Addr()}}, Config{}), mini
}

func newWorldOn(t testing.TB, dsn string, sets index.Config, cfg Config) *world {
	t.Helper()
	w := &world{rows: worldtest.OpenStore(t, dsn, store.Options{}), ns: pipelinetest.Namespace(t), now: base, up: auditAfter}
	pipelinetest.Must(t, w.rows.Migrate(t.Context(), migrations.Files, w.ns, shards))
	sets.Namespace, sets.PutUntil = w.ns, w.putUntil
	w.sets, w.raw = worldtest.OpenIndex(t, sets)
	w.hints = streamtest.New(stream.Config{Namespace: w.ns, Partitions: 8, Now: func() time.Time { return w.now }})
	pipelinetest.Must(t, w.hints.Ensure(t.Context()))
	cfg.Layout = w.rows.Layout
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Lookahead = cmp.Or(cfg.Lookahead, time.Minute)
	var err error
	w.Reconciler, err = New(cfg, hookStore{w.rows, w}, hookIndex{w.sets, w}, w.hints)
	pipelinetest.Must(t, err)
	return w
}

func (w *world) putUntil(ctx context.Context) time.Time {
	l, err := w.rows.RecentLayout(ctx)
	if err != nil {
		return time.Time{}
	}
	return l.PutUntil(w.now)
}

// between runs fn once, right after the first call that a pass makes from now on.
func (w *world) between(fn func()) { w.hooked = fn }

func (w *world) called() {
	if fn := w.hooked; fn != nil {
		w.hooked = nil
		fn()
	}
}

// The hooks run after the calls whose order matters.
type hookStore struct {
	*worldtest.Store
	w *world
}

func (h hookStore) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	defer h.w.called()
	return h.Store.Entries(ctx, ids)
}

// Floor is that of the world's clock, which is behind the database's: rows are inserted below it at any time.
func (hookStore) Floor(context.Context) (time.Time, error) { return time.Time{}, nil }

type hookIndex struct {
	*index.Index
	w *world
}

func (h hookIndex) Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	defer h.w.called()
	return h.Index.Standings(ctx, tasks)
}

func (h hookIndex) Uptime(context.Context) (time.Duration, error) { return h.w.up, nil }

func (w *world) clock() time.Time { return w.now }

type sweepRun = func(context.Context, *sweep) (loop.Result, error)

// run runs a pass, or a chore, once. It must not fail.
func (w *world) run(t testing.TB, pass any) loop.Result {
	t.Helper()
	res, err := w.try(t.Context(), pass)
	pipelinetest.Must(t, err)
	return res
}

// try is run for what may fail.
func (w *world) try(ctx context.Context, run any) (loop.Result, error) {
	p := pass{}
	switch run := run.(type) {
	case sweepRun:
		p.run = run
	case func(context.Context, clock) (loop.Result, error):
		p.run = chore(run)
	}
	return w.sweep(p, w.clock).runPass(ctx)
}

// auditRows and auditIndex look at everything, as after an alarm, and at AuditRate a pass.
func (w *world) auditRows() *auditRows {
	w.alarm(context.Background(), "tested", 1)
	return new(auditRows)
}

func (w *world) auditIndex() *auditIndex {
	w.alarm(context.Background(), "tested", 1)
	return new(auditIndex)
}

// pending makes a task that is due at a duration after base.
func pending(owner string, due time.Duration) task.Task {
	return task.Task{
		ID: task.NewID(), Kind: "pet.meal_finished", Queue: "default", Owner: owner, Subject: "pet-7",
		State: task.Pending, DueAt: base.Add(due), RunAt: base.Add(due), Version: 1, MaxAttempts: 25,
		Payload: []byte("{}"), CreatedAt: base.Add(-time.Hour), UpdatedAt: base.Add(-time.Hour),
	}
}

// insert commits rows without putting them, and returns them as inserted.
func (w *world) insert(t testing.TB, tasks ...task.Task) []task.Task {
	t.Helper()
	rows, err := w.rows.Insert(t.Context(), w.rows.DB(), tasks)
	pipelinetest.Must(t, err)
	return rows
}

// save commits a row's next version without putting it.
func (w *world) save(t testing.TB, one task.Task) task.Task {
	t.Helper()
	pipelinetest.Must(t, worldtest.Save(t.Context(), w.rows.Store, w.rows.DB(), one))
	return one
}

// put is a writer's put after its commit.
func (w *world) put(t testing.TB, tasks ...task.Task) {
	t.Helper()
	pipelinetest.Must(t, w.sets.Put(t.Context(), tasks))
}

// moved returns the task's next version, changed now, at another time.
func (w *world) moved(t testing.TB, one task.Task, due time.Duration) task.Task {
	t.Helper()
	next, err := transition.Move(one, base.Add(due), w.now)
	pipelinetest.Must(t, err)
	return next
}

func (w *world) cancelled(t testing.TB, one task.Task) task.Task {
	t.Helper()
	next, err := transition.Cancel(one, w.now)
	pipelinetest.Must(t, err)
	return next
}

// publish does what the event process does: it publishes hints and removes their entries.
func (w *world) publish(t testing.TB, tasks ...task.Task) {
	t.Helper()
	for _, one := range tasks {
		entries := []protocol.Entry{w.entry(t, one)}
		for _, err := range w.hints.Publish(t.Context(), entries, 1) {
			pipelinetest.Must(t, err)
		}
		_, err := worldtest.Acknowledge(t.Context(), w.sets, one.Shard, 1, entries)
		pipelinetest.Must(t, err)
	}
}

func (w *world) entry(t testing.TB, one task.Task) protocol.Entry {
	t.Helper()
	entries, _, err := worldtest.OwnerEntries(t.Context(), w.sets, one.Shard, one.Owner)
	pipelinetest.Must(t, err)
	for _, e := range entries {
		if e.ID == one.ID {
			return e
		}
	}
	t.Fatalf("%s is not in its owner's list", one.ID)
	return protocol.Entry{}
}

// flush loses the index's memory of this namespace.
func (w *world) flush(t testing.TB) {
	t.Helper()
	var cursor uint64
	for {
		keys, next, err := w.raw.Scan(t.Context(), cursor, w.ns+":*", 1000).Result()
		pipelinetest.Must(t, err)
		if len(keys) > 0 {
			pipelinetest.Must(t, w.raw.Del(t.Context(), keys...).Err())
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}

func (w *world) dueKey(shard int) string { return fmt.Sprintf("%s:{%d}:due", w.ns, shard) }

func (w *world) ownerKey(shard int, owner string) string {
	return fmt.Sprintf("%s:{%d}:owner:%s", w.ns, shard, owner)
}

// standing returns what the sets hold for one task.
func (w *world) standing(t testing.TB, one task.Task) protocol.Standing {
	t.Helper()
	s, err := w.sets.Standings(t.Context(), []task.Task{one})
	pipelinetest.Must(t, err)
	return s[0]
}

func (w *world) wantStanding(t testing.TB, what string, one task.Task, want protocol.Standing) {
	t.Helper()
	if d := diff.Diff(want, w.standing(t, one)); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// both is the standing of a task that stands in both sets as it is.
func both(one task.Task) protocol.Standing {
	return protocol.Standing{Due: protocol.ScoreOf(one), Owner: protocol.ScoreOf(one)}
}

// members returns all that the sets hold: by set and task, the score.
func (w *world) members(t testing.TB) map[string]protocol.Score {
	t.Helper()
	all := map[string]protocol.Score{}
	layout, err := w.rows.Layout(t.Context())
	pipelinetest.Must(t, err)
	for shard := range layout.Polled() {
		for name, scan := range map[string]func(context.Context, int, protocol.ScanCursor, int64) ([]protocol.Entry, protocol.ScanCursor, error){
			"due": w.sets.ScanDue, "owner": w.sets.ScanOwners,
		} {
			cursor, more := protocol.ScanCursor{}, true
			for more {
				entries, next, err := scan(t.Context(), shard, cursor, page)
				pipelinetest.Must(t, err)
				for _, e := range entries {
					all[fmt.Sprintf("%d %s %s %s", shard, name, e.Owner, e.ID)] = e.Score
				}
				cursor, more = next, !next.Done()
			}
		}
	}
	return all
}

// truth returns what the sets must hold according to the rows.
func (w *world) truth(t testing.TB) map[string]protocol.Score {
	t.Helper()
	all := map[string]protocol.Score{}
	var after protocol.Cursor
	for {
		rows, next, err := w.rows.PendingExcept(t.Context(), nil, time.Time{}, farFuture, after, page)
		pipelinetest.Must(t, err)
		for _, row := range rows {
			all[fmt.Sprintf("%d due %s %s", row.Shard, row.Owner, row.ID)] = protocol.ScoreOf(row)
			all[fmt.Sprintf("%d owner %s %s", row.Shard, row.Owner, row.ID)] = protocol.ScoreOf(row)
		}
		if after = next; after.ID.IsZero() {
			return all
		}
	}
}

// wantTruth checks that both sets of every shard hold exactly what the rows say.
func (w *world) wantTruth(t testing.TB) {
	t.Helper()
	if d := diff.Diff(w.truth(t), w.members(t)); d != "" {
		t.Errorf("the sets against the rows (-want +got):\n%s", d)
	}
}
