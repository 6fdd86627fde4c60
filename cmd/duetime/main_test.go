package main_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// deployment is a namespace on the shared servers, without any process: only the test changes it.
type deployment struct {
	namespace string
	dsn       string
	env       []string
	db        *sqlx.DB
	redis     *redis.Client
	client    *duetime.Client
}

// answer is the result of one run of the tool.
type answer struct {
	code     int
	out, err string
}

// run runs the tool to its end; more are NAME=value entries of the environment, which override others.
func (d deployment) run(t *testing.T, more []string, args ...string) answer {
	t.Helper()
	p := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/duetime"), append(d.env, more...), args...)
	code := p.Wait(t, time.Minute)
	return answer{code, p.Stdout(), strings.Join(p.Lines(), "\n")}
}

// wantCode runs the tool and wants this exit code. Any other code than 0 needs one line that says why, unless silent.
func (d deployment) wantCode(t *testing.T, want int, args ...string) answer {
	t.Helper()
	got := d.run(t, nil, args...)
	if got.code != want {
		t.Errorf("%s: exit code %d, want %d; said %s", strings.Join(args, " "), got.code, want, got.err)
	}
	if lines := strings.Count(got.err+"\n", "\n"); want > 0 && (lines != 1 || !strings.HasPrefix(got.err, "duetime: ")) {
		t.Errorf("%s: said %q, want one line of duetime", strings.Join(args, " "), got.err)
	}
	return got
}

// unmigrated is a deployment whose schema is empty.
func unmigrated(t *testing.T) deployment {
	t.Helper()
	return unmigratedOn(t, pipelinetest.MySQL(t).NewSchema(t))
}

func unmigratedOn(t *testing.T, dsn string) deployment {
	t.Helper()
	d := deployment{namespace: pipelinetest.Namespace(t), dsn: dsn}
	d.env = []string{
		"DUETIME_NAMESPACE=" + d.namespace, "DUETIME_MYSQL__DSN=" + d.dsn, "DUETIME_REDIS__ADDRS=" + pipelinetest.Redis(t).Addr(),
		"DUETIME_KAFKA__BROKERS=" + pipelinetest.Kafka(t).Addr(), "DUETIME_ZOOKEEPER__SERVERS=" + pipelinetest.ZooKeeper(t).Addr(), "DUETIME_KAFKA__PARTITIONS=2", "DUETIME_SHARDS=4",
		"DUETIME_DAEMON__GRACE=100ms",
	}
	var err error
	d.db, err = sqlx.Open("mysql", d.dsn)
	pipelinetest.Must(t, err)
	d.redis = redis.NewClient(&redis.Options{Addr: pipelinetest.Redis(t).Addr()})
	t.Cleanup(func() { _, _ = d.db.Close(), d.redis.Close() })
	return d
}

// migrated is a deployment ready for tasks.
func migrated(t *testing.T) deployment {
	t.Helper()
	return unmigrated(t).migrated(t)
}

func (d deployment) migrated(t *testing.T) deployment {
	t.Helper()
	d.wantCode(t, 0, "migrate", "up")
	cfg := duetime.DefaultConfig()
	cfg.Namespace, cfg.MySQL.DSN, cfg.Shards = d.namespace, duetime.DSN(d.dsn), 4
	cfg.Redis.Addrs, cfg.Kafka.Brokers = []string{pipelinetest.Redis(t).Addr()}, []string{pipelinetest.Kafka(t).Addr()}
	var err error
	d.client, err = duetime.Open(cfg, duetime.WithLogger(slog.New(slog.DiscardHandler)))
	pipelinetest.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = d.client.Close(ctx)
	})
	pipelinetest.Must(t, d.client.Ready(t.Context()))
	return d
}

type reminder struct {
	Text string `json:"text"`
}

var remind = task.NewKind[reminder]("test.remind")

// schedule makes a task of owner that is due this much later.
func (d deployment) schedule(t *testing.T, owner string, in time.Duration) task.Task {
	t.Helper()
	var made task.Task
	pipelinetest.Must(t, d.client.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		made, err = tx.Schedule(t.Context(), remind.New(owner, reminder{"hello"}, task.In(in), task.Subject("cat")))
		return err
	}))
	return made
}

// decode decodes an answer that must be one JSON value.
func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.out), &v); err != nil {
		t.Fatalf("%v in %q (exit code %d, said %q)", err, a.out, a.code, a.err)
	}
	return v
}

// The tool's host is half an hour behind the database. A task that the tool brings near wakes its dispatcher all the same.
func TestToolWakesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	server, clock := pipelinetest.OwnMySQL(t), pipelinetest.NewClock(t)
	clock.Shift(30 * time.Minute)
	pipelinetest.Must(t, server.Kill())
	server.UseClock(clock)
	pipelinetest.Must(t, server.Start())
	d := unmigratedOn(t, server.NewSchema(t)).migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	wakes := d.redis.PSubscribe(t.Context(), d.namespace+":{*}:wake")
	defer func() { _ = wakes.Close() }()
	_, err := wakes.Receive(t.Context())
	pipelinetest.Must(t, err)
	d.wantCode(t, 0, "task", "reschedule", made.ID.String(), "--by=-59m")
	select {
	case <-wakes.Channel():
	case <-time.After(10 * time.Second):
		t.Error("no dispatcher was woken")
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	d := unmigrated(t)
	before := d.wantCode(t, 0, "migrate", "status")
	if lines := strings.Split(strings.TrimSpace(before.out), "\n"); len(lines) < 2 || !strings.Contains(lines[1], " no ") {
		t.Errorf("status of an empty schema: %s", before.out)
	}
	for range 2 {
		up := d.wantCode(t, 0, "migrate", "up")
		if diff := cmp.Diff("schema is up to date\ntopics are there\n", up.out); diff != "" {
			t.Errorf("up (-want +got):\n%s", diff)
		}
	}
	if after := d.wantCode(t, 0, "migrate", "status"); strings.Contains(after.out, " no ") || !strings.Contains(after.out, "_tasks.sql") {
		t.Errorf("status after up: %s", after.out)
	}
	var shards int
	pipelinetest.Must(t, d.db.Get(&shards, `SELECT shards FROM duetime_layout WHERE namespace = ?`, d.namespace))
	if shards != 4 {
		t.Errorf("the layout has %d shards, want 4", shards)
	}
}

func TestMigrateKeepsTheLayout(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	if again := d.run(t, []string{"DUETIME_SHARDS=9"}, "migrate", "up"); again.code != 0 {
		t.Errorf("another shard count: exit code %d, said %s", again.code, again.err)
	}
	var shards int
	pipelinetest.Must(t, d.db.Get(&shards, `SELECT shards FROM duetime_layout`))
	if shards != 4 {
		t.Errorf("the layout has %d shards, want the first 4", shards)
	}
	other := d.run(t, []string{"DUETIME_NAMESPACE=another"}, "migrate", "up")
	if other.code != 1 || !strings.Contains(other.err, d.namespace) {
		t.Errorf("another namespace: exit code %d, said %s", other.code, other.err)
	}
}

func TestAnotherNamespacesSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	for _, args := range [][]string{
		{"task", "get", made.ID.String()},
		{"task", "cancel", made.ID.String()},
		{"task", "list"},
		{"pause", "default"},
		{"stats"},
		{"verify"},
		{"shard", "stat"},
	} {
		got := d.run(t, []string{"DUETIME_NAMESPACE=another"}, args...)
		if got.code != 1 || !strings.Contains(got.err, d.namespace) || !strings.Contains(got.err, "another") {
			t.Errorf("%v: exit code %d, said %s", args, got.code, got.err)
		}
	}
	if got := decode[shown](t, d.wantCode(t, 0, "task", "get", made.ID.String(), "--json")); got.State != "pending" {
		t.Errorf("the task is %s", got.State)
	}
}

func TestMigratePrintNeedsNoServer(t *testing.T) {
	t.Parallel()
	d := deployment{env: away(t, "MYSQL__DSN", "REDIS__ADDRS", "KAFKA__BROKERS")}
	got := d.wantCode(t, 0, "migrate", "print")
	for _, want := range []string{"duetime_tasks", "duetime_epochs", "duetime_layout"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("the SQL has no %s", want)
		}
	}
}

// away returns settings with unreachable servers.
func away(t *testing.T, keys ...string) []string {
	t.Helper()
	nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
	nobody.Refuse()
	env := make([]string, len(keys))
	for i, key := range keys {
		value := nobody.Addr()
		if key == "MYSQL__DSN" {
			value = "root@tcp(" + value + ")/away"
		}
		env[i] = "DUETIME_" + key + "=" + value
	}
	return env
}

func TestServersAway(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	for _, c := range []struct {
		away string
		args []string
	}{
		{"MYSQL__DSN", []string{"verify"}},
		{"REDIS__ADDRS", []string{"verify", "--json"}},
		{"MYSQL__DSN", []string{"stats", "--json"}},
		{"MYSQL__DSN", []string{"migrate", "up"}},
		{"KAFKA__BROKERS", []string{"migrate", "up"}},
		{"MYSQL__DSN", []string{"migrate", "status"}},
		{"MYSQL__DSN", []string{"task", "get", made.ID.String()}},
		{"MYSQL__DSN", []string{"task", "list"}},
		{"MYSQL__DSN", []string{"task", "cancel", made.ID.String()}},
	} {
		got := d.run(t, away(t, c.away), c.args...)
		if got.code != 2 || got.err == "" {
			t.Errorf("%v without %s: exit code %d, want 2; said %q", c.args, c.away, got.code, got.err)
		}
	}
	// Only the row counts: without Redis a change is made too.
	if got := d.run(t, away(t, "REDIS__ADDRS"), "task", "cancel", made.ID.String()); got.code != 0 {
		t.Errorf("cancel without Redis: exit code %d, said %q", got.code, got.err)
	}
}

// A server that answers is not away: an operator has to create what it lacks.
func TestUnknownDatabaseIsNoServerAway(t *testing.T) {
	t.Parallel()
	d := unmigrated(t)
	for _, args := range [][]string{{"task", "list"}, {"verify"}, {"migrate", "up"}, {"top", "--once"}, {"stats", "--json"}} {
		got := d.run(t, []string{"DUETIME_MYSQL__DSN=" + d.dsn + "_absent"}, args...)
		if got.code != 1 || !strings.Contains(got.err, "create this schema") || !strings.Contains(got.err, "_absent") {
			t.Errorf("%v: exit code %d, want 1; said %q", args, got.code, got.err)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	id := d.schedule(t, "ann", time.Hour).ID.String()
	absent := filepath.Join(t.TempDir(), "absent.yaml")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"mirgate"}, "mirgate"},
		{[]string{"migrate", "sideways"}, "sideways"},
		{[]string{"verify", "--yaml"}, "--yaml"},
		{[]string{"verify", "now"}, "now"},
		{[]string{"stats", "--config", absent}, absent},
		{[]string{"task", "get"}, "1 arg"},
		{[]string{"migrate"}, "needs one of its commands"},
		{[]string{"task"}, "needs one of its commands"},
		{[]string{"task", "get", "7"}, "UUID"},
		{[]string{"task", "list", "--state", "tired"}, "--state"},
		{[]string{"task", "list", "--due-before", "noon"}, "--due-before"},
		{[]string{"task", "list", "--limit", "0"}, "--limit"},
		{[]string{"schedule", "list", "--after", "nowhere"}, "--after must be"},
		{[]string{"task", "cancel", "x"}, "UUID"},
		{[]string{"task", "reschedule", id}, "--at or --by"},
		{[]string{"task", "reschedule", id, "--at", "2030-01-01T00:00:00Z", "--by", "1h"}, "--at or --by"},
		{[]string{"task", "reschedule", id, "--at", "tomorrow"}, "--at"},
		{[]string{"task", "reschedule", id, "--by", "soon"}, "--by"},
		{[]string{"task", "reschedule", id, "--at", "2300-01-01T00:00:00Z"}, "due"},
	} {
		if got := d.wantCode(t, 1, c.args...); !strings.Contains(got.err, c.want) || got.out != "" {
			t.Errorf("%v: said %q and %q, want %q in the former", c.args, got.err, got.out, c.want)
		}
	}
}
