package duetime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// configured writes a configuration for its own schema and namespace on the shared servers, and loads it.
func configured(t *testing.T, dsn string) duetime.Config {
	t.Helper()
	text := fmt.Sprintf("namespace: %s\nmysql: {dsn: %q}\nredis: {addrs: [%q]}\nkafka: {brokers: [%q], partitions: 4}\n",
		pipelinetest.Namespace(t), dsn, pipelinetest.Redis(t).Addr(), pipelinetest.Kafka(t).Addr())
	path := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	cfg, err := duetime.LoadConfig(path)
	pipelinetest.Must(t, err)
	return cfg
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// migrated creates the schema and the topics, as the operator's tool does, and returns the parts of an event process.
func migrated(t *testing.T, cfg duetime.Config) *parts.Parts {
	t.Helper()
	p, err := parts.Open(cfg, logger(t), nil, store.Options{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	pipelinetest.Must(t, p.Store.Migrate(t.Context(), migrations.Files, cfg.Namespace, cfg.Shards))
	pipelinetest.Must(t, p.Stream.Ensure(t.Context()))
	return p
}

// event runs an event process until the test ends.
func event(t *testing.T, p *parts.Parts) {
	t.Helper()
	pipelinetest.Must(t, p.Clock.Learn(t.Context()))
	d, err := dispatch.New(dispatch.Config{
		Lead: p.Config.Event.Lead, Now: p.Clock.Now, Layout: p.Store.Layout, Logger: p.Log, Tracer: p.Tracer,
	}, p.Index, p.Stream)
	pipelinetest.Must(t, err)
	epoch, err := p.Store.Take(t.Context(), "event")
	pipelinetest.Must(t, err)
	inBackground(t, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return p.Clock.Run(ctx) })
		group.Go(func() error { return d.Lead(ctx, epoch, new(worldtest.Term)) })
		return group.Wait()
	})
}

// inBackground runs fn until the test ends, or until the returned function is called.
func inBackground(t *testing.T, fn func(ctx context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { pipelinetest.Must(t, stop()) })
	return stop
}

func newClient(t *testing.T, cfg duetime.Config, opts ...duetime.Option) *duetime.Client {
	t.Helper()
	usual := []duetime.Option{duetime.WithLogger(logger(t)), duetime.WithMetrics(prometheus.NewRegistry())}
	client, err := duetime.Open(cfg, append(usual, opts...)...)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, client.Close(context.Background())) })
	return client
}

// eat records the effect of a meal.
func eat(ctx context.Context, tx *worker.Tx, t worker.Task[Meal]) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO eaten (task_id, pet) VALUES (?, ?)", t.ID.String(), t.Payload.Pet)
	return err
}

// kitchen is a service with its own handle on MySQL, at the server's default isolation.
type kitchen struct {
	t      *testing.T
	client *duetime.Client
	joined chan struct{} // a message each time that Work has joined its groups
	db     *sqlx.DB
	parts  *parts.Parts // of the event process
}

func newKitchen(t *testing.T) *kitchen {
	t.Helper()
	return newKitchenOn(t, configured(t, pipelinetest.MySQL(t).NewSchema(t)))
}

func newKitchenOn(t *testing.T, cfg duetime.Config) *kitchen {
	t.Helper()
	p := migrated(t, cfg)
	for shard := range cfg.Shards { // no daemon runs here to mark the index complete
		token, err := p.Index.BeginRebuild(t.Context(), shard)
		pipelinetest.Must(t, err)
		_, err = p.Index.EndRebuild(t.Context(), shard, token)
		pipelinetest.Must(t, err)
	}
	event(t, p)
	k := &kitchen{t: t, joined: make(chan struct{}, 8), parts: p}
	k.client = newClient(t, cfg, duetime.OnJoined(func() { k.joined <- struct{}{} }))
	pipelinetest.Must(t, k.client.Ready(t.Context()))
	var err error
	k.db, err = sqlx.Open("mysql", string(cfg.MySQL.DSN)+"?"+pipelinetest.IsolationVariable(t)+"=%27READ-COMMITTED%27")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, k.db.Close()) })
	_, err = k.db.ExecContext(t.Context(), "CREATE TABLE eaten (task_id CHAR(36), pet BIGINT)")
	pipelinetest.Must(t, err)
	return k
}

// work runs the handler and returns when this process has joined its group.
func (k *kitchen) work() (stop func() error) {
	k.t.Helper()
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, eat)
	stop = inBackground(k.t, func(ctx context.Context) error { return k.client.Work(ctx, mux) })
	select {
	case <-k.joined:
	case <-time.After(time.Minute):
		k.t.Fatal("no group joined")
	}
	return stop
}

func (k *kitchen) eaten(pet int64) int {
	k.t.Helper()
	var n int
	pipelinetest.Must(k.t, k.db.GetContext(k.t.Context(), &n, "SELECT COUNT(*) FROM eaten WHERE pet = ?", pet))
	return n
}

// joinSQL and joinSQLX are the two ways to join a service's own transaction.
func (k *kitchen) joinSQL(fn func(tx *sql.Tx, joined *schedule.Joined)) {
	k.t.Helper()
	tx, err := k.db.BeginTx(k.t.Context(), nil)
	pipelinetest.Must(k.t, err)
	defer func() { _ = tx.Rollback() }()
	fn(tx, k.client.Join(tx))
}

func (k *kitchen) joinSQLX(fn func(tx *sqlx.Tx, joined *schedule.Joined)) {
	k.t.Helper()
	tx, err := k.db.BeginTxx(k.t.Context(), nil)
	pipelinetest.Must(k.t, err)
	defer func() { _ = tx.Rollback() }()
	fn(tx, k.client.Join(tx))
}

func TestEndToEnd(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	ctx := t.Context()
	stop := k.work()
	hour := task.In(time.Hour)

	var plain, moved, gone, undone task.Task
	pipelinetest.Must(t, k.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		plain, err = tx.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 1}, task.In(200*time.Millisecond), task.Subject("1")))
		return err
	}))
	k.joinSQL(func(_ *sql.Tx, joined *schedule.Joined) {
		var err error
		moved, err = joined.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 2}, hour))
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, joined.Commit(ctx))
	})
	k.joinSQLX(func(_ *sqlx.Tx, joined *schedule.Joined) {
		var err error
		gone, err = joined.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 3}, hour))
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, joined.Commit(ctx))
	})
	k.joinSQL(func(tx *sql.Tx, joined *schedule.Joined) { // rolled back
		var err error
		undone, err = joined.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 4}, task.In(0)))
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, tx.Rollback())
	})
	pipelinetest.Await(t, "the owner's list", func() bool {
		list, source, err := k.client.Tasks(ctx, "ada", MealFinished.Name())
		pipelinetest.Must(t, err)
		return source == schedule.FromIndex && len(list) == 2 && list[0].ID != plain.ID // plain is done by then
	})

	k.joinSQL(func(tx *sql.Tx, joined *schedule.Joined) { // a framework commits
		_, err := joined.Cancel(ctx, gone.ID)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, tx.Commit())
		pipelinetest.Must(t, joined.Index(ctx))
	})
	k.joinSQLX(func(_ *sqlx.Tx, joined *schedule.Joined) {
		_, err := joined.Shift(ctx, moved.ID, -2*time.Hour)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, joined.Commit(ctx))
	})
	pipelinetest.Await(t, "the moved meal", func() bool { return k.eaten(2) > 0 })
	if _, err := k.client.Cancel(ctx, moved.ID); !errors.Is(err, task.ErrAlreadyDone) {
		t.Errorf("got %v for a cancel after the effect, want %v", err, task.ErrAlreadyDone)
	}
	if _, err := k.client.Cancel(ctx, gone.ID); !errors.Is(err, task.ErrAlreadyCancelled) {
		t.Errorf("got %v for a second cancel, want %v", err, task.ErrAlreadyCancelled)
	}
	if _, err := k.client.Cancel(ctx, undone.ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("got %v for a task that was rolled back, want %v", err, task.ErrNotFound)
	}
	pipelinetest.Must(t, stop())
	for pet, want := range map[int64]int{1: 1, 2: 1, 3: 0, 4: 0} {
		if got := k.eaten(pet); got != want {
			t.Errorf("pet %d: got %d meals eaten, want %d", pet, got, want)
		}
	}
}

// Several calls of Work share the queue, and each task is run by one of them.
func TestSeveralWork(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	first := k.work()
	k.work()
	schedule100 := func(from int) {
		specs := make([]task.Spec, 100)
		for i := range specs {
			specs[i] = MealFinished.New(fmt.Sprint("owner-", i), Meal{Pet: int64(from + i)}, task.In(time.Duration(i)*5*time.Millisecond))
		}
		pipelinetest.Must(t, k.client.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(t.Context(), specs)
			return err
		}))
	}
	total := func() (n, distinct int) {
		row := k.db.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT pet) FROM eaten")
		pipelinetest.Must(t, row.Scan(&n, &distinct))
		return n, distinct
	}
	schedule100(0)
	pipelinetest.Must(t, first()) // while the others fire
	schedule100(100)
	pipelinetest.Await(t, "all meals", func() bool { _, distinct := total(); return distinct == 200 })
	if n, _ := total(); n != 200 {
		t.Errorf("got %d effects of 200 tasks", n)
	}
}

func TestReadyIsRefused(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	cfg := configured(t, dsn)

	waiting, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := newClient(t, cfg).Ready(waiting); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v before the schema is made, want it to wait", err)
	}
	migrated(t, cfg)
	pipelinetest.Must(t, newClient(t, cfg).Ready(t.Context()))

	other := cfg
	other.Namespace = "theirs"
	if err := newClient(t, other).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("got %v for a schema of another namespace", err)
	}
	stranger := cfg
	stranger.MySQL.DSN = duetime.DSN(strings.Replace(dsn, "root@", "stranger:secret@", 1))
	if err := newClient(t, stranger).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "mysql.dsn") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v for refused credentials", err)
	}
	away := cfg
	away.MySQL.DSN = "root@tcp(127.0.0.1:1)/x"
	client := newClient(t, away)
	if _, err := client.Schedule(t.Context(), MealFinished.New("ada", Meal{}, task.In(0))); !client.Unavailable(err) {
		t.Errorf("got %v from a server that is away, want it to be unavailable", err)
	}
}

// The database fails over to a host whose clock is an hour ahead. A client that does nothing learns it by itself.
func TestClientFollowsTheDatabasesClock(t *testing.T) {
	t.Parallel()
	server, clock := pipelinetest.OwnMySQL(t), pipelinetest.NewClock(t)
	pipelinetest.Must(t, server.Kill())
	server.UseClock(clock)
	pipelinetest.Must(t, server.Start())
	cfg := configured(t, server.NewSchema(t))
	migrated(t, cfg)
	reg := prometheus.NewRegistry()
	pipelinetest.Must(t, newClient(t, cfg, duetime.WithMetrics(reg)).Ready(t.Context()))
	gapIsNear := func(want time.Duration) bool {
		families, err := reg.Gather()
		pipelinetest.Must(t, err)
		for _, f := range families {
			if f.GetName() == "duetime_clock_gap_seconds" {
				return math.Abs(f.GetMetric()[0].GetGauge().GetValue()-want.Seconds()) < 1
			}
		}
		t.Fatal("there is no duetime_clock_gap_seconds")
		return false
	}
	if !gapIsNear(0) {
		t.Error("the client sees a gap before the clock was set")
	}
	clock.Shift(time.Hour)
	pipelinetest.Await(t, "the gap of an hour", func() bool { return gapIsNear(time.Hour) })
}

func TestOpenIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *duetime.Config){
		"mysql.dsn": func(c *duetime.Config) { c.MySQL.DSN = "nonsense" },
		"redis":     func(c *duetime.Config) { c.Redis.Mode = "sentinel" },
		"queues":    func(c *duetime.Config) { c.Queues = []string{"a:b"} },
		"namespace": func(c *duetime.Config) { c.Namespace = "{}" },
	} {
		cfg := duetime.DefaultConfig()
		change(&cfg)
		client, err := duetime.Open(cfg)
		if err == nil {
			_ = client.Close(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, err := duetime.LoadConfig(filepath.Join(t.TempDir(), "missing.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a file that is not there", err)
	}
}

func TestOpenRefusesWhatCantWork(t *testing.T) {
	t.Parallel()
	cfg := duetime.DefaultConfig()
	cfg.Worker.Batch = 5000
	if _, err := duetime.Open(cfg); err == nil || !strings.Contains(err.Error(), "worker.batch") {
		t.Errorf("got %v, want an error that names worker.batch", err)
	}
}

func TestWorkThatIsToldToEndBeforeItBegins(t *testing.T) {
	t.Parallel()
	cfg := duetime.DefaultConfig()
	cfg.MySQL.DSN, cfg.Redis.Addrs, cfg.Kafka.Brokers = "root@tcp(127.0.0.1:1)/nowhere", []string{"127.0.0.1:1"}, []string{"127.0.0.1:1"}
	client, err := duetime.Open(cfg, duetime.WithLogger(slog.New(slog.DiscardHandler)))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, client.Close(context.Background())) })
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, eat)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	pipelinetest.Must(t, client.Work(ctx, mux))
	if err := client.Work(t.Context(), nil); err == nil {
		t.Error("worked without a mux")
	}
}

// A commit without an answer may be due to an unavailable database, but trying again could do the work twice.
func TestUnavailableMeansThatNothingWasCommitted(t *testing.T) {
	t.Parallel()
	client, err := duetime.Open(duetime.DefaultConfig())
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, client.Close(context.Background())) })
	if !client.Unavailable(mysql.ErrInvalidConn) || client.Unavailable(fmt.Errorf("%w: %w", schedule.ErrCommitUnknown, mysql.ErrInvalidConn)) {
		t.Error("a lost connection is away, a lost answer of a commit is not")
	}
}
