package protocoltest

import (
	"context"
	"database/sql/driver"
	"os"
	"path/filepath"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) {
	// In a synctest bubble, time.Now is the bubble's time. SQLite's own clock is not.
	sqlite.MustRegisterScalarFunction("unixepoch", 1, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return float64(time.Now().UnixMilli()) / 1000, nil
	})
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// protocol is the real SQL, the real Lua and the real settling of the worker, with the wires between them in the test's
// hands: what was claimed, what is in the log, what was never put.
type system struct {
	t      *testing.T
	shards int
	store  *store.Store
	memory *worldtest.MemoryRedis
	index  *index.Index
	worker *engine.Worker
}

func onSQLite(t *testing.T) *store.Store {
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "protocol.db"))
	pipelinetest.Must(t, err)
	return s
}

func onMySQL(t *testing.T) *store.Store {
	s, err := store.Open(pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	pipelinetest.Must(t, err)
	return s
}

func newSystem(t *testing.T, s *store.Store, memory *worldtest.MemoryRedis, shards int) *system {
	p := &system{t: t, shards: shards, store: s, memory: memory}
	t.Cleanup(func() { pipelinetest.Must(t, p.store.Close()) })
	pipelinetest.Must(t, p.store.Migrate(t.Context(), migrations.Files, "protocol", shards))
	_, err := p.store.DB().ExecContext(t.Context(), `CREATE TABLE effects (
		task_id TEXT NOT NULL, tones INTEGER NOT NULL, due_ms BIGINT NOT NULL, at_ms BIGINT NOT NULL)`)
	pipelinetest.Must(t, err)
	p.index, err = index.Open(index.Config{Namespace: "protocol", Addrs: []string{p.memory.Addr()}, ReadTimeout: healLimit})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.index.Close()) })
	return p
}

// restartWorker forgets all that a worker remembers.
func (p *system) restartWorker() {
	mux := worker.NewMux()
	worker.Handle(mux, bell, func(ctx context.Context, tx *worker.Tx, t worker.Task[int]) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO effects (task_id, tones, due_ms, at_ms) VALUES (?, ?, ?, ?)`,
			t.ID.String(), t.Payload, t.DueAt.UnixMilli(), now.UnixMilli())
		return err
	})
	w, err := engine.New(engine.Config{}, mux, p.store, nil, worldtest.Direct{Index: p.index}, nobody{})
	pipelinetest.Must(p.t, err)
	p.worker = w
}

// entries gives those of the due set and those of the owners' sets.
func (p *system) entries(shard int) [2][]protocol.Entry {
	due, _, err := p.index.ScanDue(p.t.Context(), shard, protocol.ScanCursor{}, 1000)
	pipelinetest.Must(p.t, err)
	owned, _, err := p.index.ScanOwners(p.t.Context(), shard, protocol.ScanCursor{}, 1000)
	pipelinetest.Must(p.t, err)
	return [2][]protocol.Entry{due, owned}
}

// nobody takes dead letters.
type nobody struct{}

func (nobody) Bury(context.Context, []protocol.DeadLetter) error { return nil }

// silence is a stream on which the daemon hears nothing and every hint was read.
type silence struct{}

func (silence) Compensations(ctx context.Context, _ func(context.Context, []protocol.Compensation) error) error {
	<-ctx.Done()
	return nil
}

func (silence) Backlog(context.Context, string) (reconcile.Backlog, error) { return silence{}, nil }
func (silence) Explains(string, time.Time) bool                            { return false }
func (silence) Clear(string) bool                                          { return true }
func (silence) Partition(string) int                                       { return 0 }
func (silence) Fenced(int64)                                               {}
func (silence) Progress()                                                  {}
