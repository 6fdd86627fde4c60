package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the oracle's own connection

	"github.com/duetime/duetime/internal/pipelinetest"
)

// place says where the servers of a deployment are; it is what its processes are configured with.
type place struct {
	dsn, redis, zookeeper, kafka, namespace string
	rules                                   []string // further NAME=value of every process
}

// env configures a process, with further NAME=value that win.
func (p place) env(more ...string) []string {
	env := []string{
		"DUETIME_NAMESPACE=" + p.namespace, "DUETIME_MYSQL__DSN=" + p.dsn, "DUETIME_REDIS__ADDRS=" + p.redis,
		"DUETIME_ZOOKEEPER__SERVERS=" + p.zookeeper, "DUETIME_KAFKA__BROKERS=" + p.kafka, "DUETIME_GAME__LISTEN=127.0.0.1:0",
		"DUETIME_EVENT__ADMIN=127.0.0.1:0", "DUETIME_WORKER__ADMIN=127.0.0.1:0",
		"DUETIME_DAEMON__ADMIN=127.0.0.1:0", "DUETIME_GAME__ADMIN=127.0.0.1:0",
	}
	return append(append(env, p.rules...), more...)
}

// shared is a deployment of its own on the servers that this package's tests share, migrated.
func shared(t *testing.T) place {
	t.Helper()
	p := place{
		dsn: pipelinetest.MariaDB(t).NewSchema(t), redis: pipelinetest.Redis(t).Addr(),
		zookeeper: pipelinetest.ZooKeeper(t).Addr(), kafka: pipelinetest.Kafka(t).Addr(), namespace: pipelinetest.Namespace(t),
		rules: []string{"DUETIME_KAFKA__PARTITIONS=4"},
	}
	p.migrate(t)
	return p
}

func (p place) migrate(t *testing.T) {
	t.Helper()
	if code, out := p.duetime(t, "migrate", "up"); code != 0 {
		t.Fatalf("migrate up: exit code %d, said %s", code, out)
	}
}

// duetime runs the operator's tool to its end and returns its exit code and standard output.
func (p place) duetime(t *testing.T, args ...string) (int, string) {
	t.Helper()
	tool := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/duetime"), p.env(), args...)
	code := tool.Wait(t, time.Minute)
	return code, tool.Stdout()
}

// process is one of our commands at work.
type process struct {
	*pipelinetest.Proc
	name string
}

// start runs a command of ours: event, worker, daemon or game.
func (p place) start(t *testing.T, name string, more ...string) process {
	t.Helper()
	return process{pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/"+name), p.env(more...)), name}
}

// ready runs a command and waits until it says that it does its work.
func (p place) ready(t *testing.T, name string, more ...string) process {
	t.Helper()
	proc := p.start(t, name, more...)
	proc.WaitReady(t)
	return proc
}

// url returns where the process serves what ("admin", "game").
func (p process) url(t *testing.T, what string) string {
	t.Helper()
	var line struct{ Addr string }
	pipelinetest.Must(t, json.Unmarshal([]byte(p.WaitLine(t, `"msg":"listening","what":"`+what+`"`)), &line))
	return "http://" + line.Addr
}

// get asks the process's own HTTP server. A connection for each request leaves nothing behind.
func (p process) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url(t, "admin")+path, nil)
	pipelinetest.Must(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	return res.StatusCode, string(body)
}

// metric sums the samples whose name and labels begin so.
func (p process) metric(t *testing.T, prefix string) float64 {
	t.Helper()
	_, text := p.get(t, "/metrics")
	sum := 0.0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			pipelinetest.Must(t, err)
			sum += n
		}
	}
	return sum
}

// leads tells whether the event process says that it leads.
func (p process) leads(t *testing.T) bool { t.Helper(); return p.metric(t, "duetime_leader ") == 1 }

// says counts the log lines that contain text.
func (p process) says(text string) int {
	n := 0
	for _, line := range p.Lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// stop ends the process as an orchestrator does, and fails the test unless it exits 0 within 10 s. It returns how long
// that took.
func (p process) stop(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	pipelinetest.Must(t, p.Term())
	code := p.Wait(t, time.Minute)
	took := time.Since(began)
	if code != 0 || took > 10*time.Second {
		t.Errorf("%s: exit code %d after %v from SIGTERM, want 0 within 10s", p.name, code, took)
	}
	return took
}

// world is a deployment on servers of its own, with all its processes: two event, two worker, a daemon and a game.
type world struct {
	place
	redis   *pipelinetest.RedisServer
	db      *sql.DB
	events  []process
	workers []process
	daemon  process
	game    process
	sizes   sizes
}

// sizes are how long and how widely the game is played.
type sizes struct {
	pets    int
	play    time.Duration
	meal    time.Duration
	speedup time.Duration
}

func sizesOf(t *testing.T) sizes {
	t.Helper()
	s := sizes{pets: 500, play: 15 * time.Second}
	var err error
	if v := os.Getenv("DUETIME_E2E_PETS"); v != "" {
		s.pets, err = strconv.Atoi(v)
		pipelinetest.Must(t, err)
	}
	if v := os.Getenv("DUETIME_E2E_FOR"); v != "" {
		s.play, err = time.ParseDuration(v)
		pipelinetest.Must(t, err)
	}
	s.meal = min(s.play/3, 20*time.Second)
	if v := os.Getenv("DUETIME_E2E_MEAL"); v != "" {
		s.meal, err = time.ParseDuration(v)
		pipelinetest.Must(t, err)
	}
	s.speedup = s.meal * 3 / 10
	return s
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{sizes: sizesOf(t), redis: pipelinetest.OwnRedis(t)}
	w.place = place{
		dsn: pipelinetest.OwnMariaDB(t).NewSchema(t), redis: w.redis.Addr(), zookeeper: pipelinetest.OwnZooKeeper(t).Addr(),
		kafka: pipelinetest.OwnKafka(t, "group.min.session.timeout.ms=6000").Addr(), namespace: "duetime", // as Kafka comes
		rules: []string{"DUETIME_GAME__MEAL=" + w.sizes.meal.String(), "DUETIME_GAME__SPEEDUP=" + w.sizes.speedup.String()},
	}
	var err error
	w.db, err = sql.Open("mysql", w.dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.migrate(t)
	w.events = []process{w.start(t, "event"), w.start(t, "event")}
	w.workers = []process{w.start(t, "worker"), w.start(t, "worker")}
	w.daemon, w.game = w.start(t, "daemon"), w.start(t, "game")
	for _, p := range w.all() {
		p.WaitReady(t)
	}
	pipelinetest.Await(t, "an event process to lead", func() bool { return w.leader(t) >= 0 })
	return w
}

func (w *world) all() []process {
	return append(append([]process{w.daemon, w.game}, w.events...), w.workers...)
}

// leader returns the index of the event process that leads, -1 when none says so.
func (w *world) leader(t *testing.T) int {
	t.Helper()
	for i, p := range w.events {
		if p.Running() && p.leads(t) {
			return i
		}
	}
	return -1
}

// now reads the database's clock, the one that the journal is written by.
func (w *world) now(t *testing.T) time.Time {
	t.Helper()
	var ms float64
	pipelinetest.Must(t, w.db.QueryRowContext(t.Context(), `SELECT UNIX_TIMESTAMP(NOW(3)) * 1000`).Scan(&ms))
	return time.UnixMilli(int64(ms))
}

// overdue counts the pending tasks that are late by more than d.
func (w *world) overdue(ctx context.Context, d time.Duration) (int, error) {
	var n int
	err := w.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - ?`,
		d.Milliseconds()).Scan(&n)
	return n, err
}

// verified is what duetime verify --json answers.
type verified struct {
	Pending, Done, Cancelled, Dead, Overdue, Missing, Extra, Lost, Duplicate, Early int64
}

// verify runs duetime verify.
func (p place) verify(t *testing.T) (int, verified) {
	t.Helper()
	code, out := p.duetime(t, "verify", "--json")
	var v verified
	if code != 2 {
		pipelinetest.Must(t, json.Unmarshal([]byte(out), &v))
	}
	return code, v
}
