package e2e_test

import (
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// endpoint is an HTTP server at one address, which can be away and can hang. It knows the answers that each id got.
type endpoint struct {
	t    *testing.T
	addr string

	mu      sync.Mutex
	server  *http.Server
	frozen  chan struct{}  // nil: it answers
	first   map[string]int // by id: the answer to its first request; 200 for others
	always  map[string]int // by id: the answer to all requests
	tries   map[string]int
	settled map[string]bool // got a 2xx
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{
		t: t, addr: "127.0.0.1:0",
		first: map[string]int{}, always: map[string]int{}, tries: map[string]int{}, settled: map[string]bool{},
	}
	e.start()
	t.Cleanup(func() { e.thaw(); e.stop() })
	return e
}

func (e *endpoint) start() {
	e.t.Helper()
	l, err := net.Listen("tcp", e.addr)
	pipelinetest.Must(e.t, err)
	server := &http.Server{Handler: e}
	e.mu.Lock()
	e.addr, e.server = l.Addr().String(), server
	e.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// stop closes all connections: the endpoint's process is dead.
func (e *endpoint) stop() { _ = e.server.Close() }

func (e *endpoint) freeze() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frozen = make(chan struct{})
}

func (e *endpoint) thaw() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.frozen != nil {
		close(e.frozen)
		e.frozen = nil
	}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	frozen := e.frozen
	e.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-r.Context().Done():
			return
		}
	}
	id := r.Header.Get("webhook-id")
	e.mu.Lock()
	status := http.StatusOK
	if once, ok := e.first[id]; ok && e.tries[id] == 0 {
		status = once
	}
	if always, ok := e.always[id]; ok {
		status = always
	}
	e.tries[id]++
	if status == http.StatusOK {
		e.settled[id] = true
	}
	e.mu.Unlock()
	w.WriteHeader(status)
}

// pushing is a deployment that delivers the kind shop.order to the endpoint.
func pushing(t *testing.T, e *endpoint) pipelinetest.Deployment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(file, fmt.Appendf(nil, `
queues: [default, push]
deliver:
  allow: [127.0.0.1/32]
  kinds:
    shop.order: {url: "http://%s/hook", queue: push, secrets_env: SHOP_SECRET, timeout: 1s}
`, e.addr), 0o600))
	p := pipelinetest.Deployment{
		DSN: pipelinetest.MySQL(t).NewSchema(t), Redis: pipelinetest.Redis(t).Addr(), ZooKeeper: pipelinetest.ZooKeeper(t).Addr(),
		Kafka: pipelinetest.Kafka(t).Addr(), Namespace: pipelinetest.Namespace(t), Config: file,
		Rules: []string{"DUETIME_KAFKA__PARTITIONS=4", "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	}
	p.Migrate(t)
	return p
}

// orders inserts tasks that are due now, as a service in another language would, and returns their ids.
func orders(t *testing.T, db *sql.DB, n, attempts int, before func(id string)) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		id := task.NewID()
		ids[i] = id.String()
		before(ids[i])
		_, err := db.ExecContext(t.Context(), `INSERT INTO duetime_tasks
			(id, kind, owner, queue, shard, due_at, run_at, max_attempts, payload, created_at, updated_at)
			SELECT ?, 'shop.order', ?, 'push', CRC32(?) MOD shards, now, now, ?, '{"order":42}', now, now
			FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t`,
			id[:], ids[i], ids[i], attempts)
		pipelinetest.Must(t, err)
	}
	return ids
}

// count returns how many of the tasks are in a state.
func count(t *testing.T, db *sql.DB, ids []string, state task.State) (n int) {
	t.Helper()
	marks := strings.TrimSuffix(strings.Repeat("UNHEX(REPLACE(?, '-', '')),", len(ids)), ",")
	args := []any{int(state)}
	for _, id := range ids {
		args = append(args, id)
	}
	query := "SELECT COUNT(*) FROM duetime_tasks WHERE state = ? AND id IN (" + marks + ")"
	pipelinetest.Must(t, db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// TestPush delivers tasks to an endpoint that fails, dies and hangs. Each task comes at least once, and is done exactly when
// its id got a 2xx. While the endpoint is away the breaker opens, and tasks of the game go on.
func TestPush(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	p := pushing(t, e)
	db, err := sql.Open("mysql", p.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	p.Ready(t, "event")
	p.Ready(t, "daemon")
	w, game := p.Ready(t, "worker"), p.Ready(t, "game", "DUETIME_GAME__MEAL=200ms")
	open := func() float64 { return w.Metric(t, `duetime_push_breaker_open{endpoint="`+e.addr+`"}`) }
	meals := func() float64 {
		return w.Metric(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="done"}`)
	}
	set := func(answers map[string]int, status int) func(id string) {
		return func(id string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			answers[id] = status
		}
	}
	nothing := func(string) {}

	all := orders(t, db, 20, 25, nothing)
	all = append(all, orders(t, db, 4, 25, set(e.first, http.StatusInternalServerError))...)
	gone := orders(t, db, 2, 25, set(e.always, http.StatusGone))
	gone = append(gone, orders(t, db, 2, 1, set(e.always, http.StatusNotFound))...)
	pipelinetest.Await(t, "all orders to be done", func() bool { return count(t, db, all, task.Done) == len(all) })
	pipelinetest.Await(t, "the refused ones to be dead", func() bool { return count(t, db, gone, task.Dead) == len(gone) })

	for i, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"dead", e.stop, e.start},
		{"frozen", e.freeze, e.thaw},
	} {
		outage.begin()
		waited := w.Metric(t, `duetime_pushes_total{endpoint="`+e.addr+`",outcome="waiting"}`)
		ids := orders(t, db, 12, 25, nothing)
		pipelinetest.Await(t, outage.name+": the breaker to open", func() bool { return open() == 1 })
		pipelinetest.Await(t, outage.name+": tasks to wait", func() bool {
			return w.Metric(t, `duetime_pushes_total{endpoint="`+e.addr+`",outcome="waiting"}`) > waited
		})
		before := meals()
		play(t, game.URL(t, "game"), fmt.Sprint("ann", i))
		pipelinetest.Await(t, outage.name+": a meal to end", func() bool { return meals() > before })
		if n := count(t, db, ids, task.Pending); n != len(ids) {
			t.Errorf("%s: %d of %d tasks are pending", outage.name, n, len(ids))
		}
		outage.end()
		pipelinetest.Await(t, outage.name+": its tasks to be done", func() bool { return count(t, db, ids, task.Done) == len(ids) })
		if open() != 0 {
			t.Errorf("%s: the breaker is still open", outage.name)
		}
		if away, back := w.Says("endpoint is away, its tasks wait"), w.Says("endpoint is back"); away != i+1 || back != i+1 {
			t.Errorf("%s: said %d times that it is away and %d times that it is back, want %d", outage.name, away, back, i+1)
		}
		all = append(all, ids...)
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range all {
		if !e.settled[id] {
			t.Errorf("%s is done without a 2xx", id)
		}
	}
	for _, id := range gone {
		if e.settled[id] || e.tries[id] == 0 {
			t.Errorf("%s is dead after %d tries, settled: %v", id, e.tries[id], e.settled[id])
		}
	}
	if code, v := p.Verify(t); code != 0 {
		t.Errorf("verify: exit code %d: %+v", code, v)
	}
	w.Stop(t)
}

// TestPushIsRefused starts workers whose endpoints can't work: they say why and exit.
func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	p := pipelinetest.Deployment{
		DSN: "root@tcp(127.0.0.1:1)/x", Redis: "127.0.0.1:1", ZooKeeper: "127.0.0.1:1", Kafka: "127.0.0.1:1", Namespace: "x",
		Config: filepath.Join(t.TempDir(), "duetime.yaml"),
	}
	order := func(kind, keys string) string {
		return "deliver: {kinds: {" + kind + ": {url: 'https://shop.example/', queue: default, " + keys + "}}}"
	}
	for text, says := range map[string]string{
		order("shop.order", "secrets_env: NOBODY_SETS_IT"):           "secrets_env: the environment has no NOBODY_SETS_IT",
		order("shop.order", "secrets_file: /nowhere"):                "secrets_file: open /nowhere",
		order("shop.order", "secrets_env: SHOP_SECRET"):              "its secrets: secret 1 is not whsec_",
		order("shop.order", "secrets_env: SHOP_SECRET, timeout: 9s"): "timeout 9s is above the limit 7s",
		order("pet.meal_finished", "secrets_env: SHOP_SECRET"):       "this worker has a handler of its own for the kind",
		"{queues: [default, push], worker: {queues: [push]}}":        "Queues (worker.queues): no kind of queue",
	} {
		pipelinetest.Must(t, os.WriteFile(p.Config, []byte(text), 0o600))
		w := p.Start(t, "worker", "SHOP_SECRET=hunter2")
		if code := w.Wait(t, time.Minute); code != 1 || w.Says(says) != 1 || w.Says("hunter2") != 0 {
			t.Errorf("%s: exit code %d, said %q, want %q", text, code, w.Lines(), says)
		}
	}
}
