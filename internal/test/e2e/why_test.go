package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// whyWorld is a deployment on servers of its own, whose handlers are an endpoint of the test's.
type whyWorld struct {
	pipelinetest.Deployment

	whole     *testing.T // processes live as long as it
	t         *testing.T // of the fault that is played
	db        *sql.DB
	mysql     *pipelinetest.MySQLServer
	redis     *pipelinetest.RedisServer
	zookeeper *pipelinetest.ZooKeeperServer
	kafka     *pipelinetest.KafkaServer
	apps      map[string]pipelinetest.App
	delay     atomic.Int64 // of the endpoint's answers
	asked     atomic.Int64 // requests that wait for their answers
}

const usualDelay = 50 * time.Millisecond

func newWhyWorld(t *testing.T) *whyWorld {
	t.Helper()
	w := &whyWorld{
		whole: t, t: t, mysql: pipelinetest.OwnMySQL(t), redis: pipelinetest.OwnRedis(t), zookeeper: pipelinetest.OwnZooKeeper(t),
		kafka: pipelinetest.OwnKafka(t), apps: map[string]pipelinetest.App{},
	}
	w.delay.Store(int64(usualDelay))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(w.answer)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	w.Deployment = pipelinetest.Deployment{
		DSN: w.mysql.NewSchema(t), Redis: w.redis.Addr(), ZooKeeper: w.zookeeper.Addr(), Kafka: w.kafka.Addr(),
		Namespace: pipelinetest.Namespace(t), Config: filepath.Join(t.TempDir(), "duetime.yaml"),
		Rules: []string{"DUETIME_KAFKA__PARTITIONS=4", "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	}
	kinds := ""
	for kind, queue := range map[string]string{"shop.order": "default", "shop.bad": "default", "shop.mail": "mails", "shop.call": "calls"} {
		kinds += fmt.Sprintf("    %s: {url: 'http://%s/%s', queue: %s, secrets_env: SHOP_SECRET}\n", kind, l.Addr(), kind, queue)
	}
	pipelinetest.Must(t, os.WriteFile(w.Config, []byte("queues: [default, mails, calls, stuck]\ndeliver:\n  allow: [127.0.0.1]\n  kinds:\n"+kinds), 0o600))
	w.Migrate(t)
	w.db, err = sql.Open("mysql", w.DSN)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = w.db.Close() })
	for _, name := range []string{"event", "daemon", "worker", "worker 2"} {
		w.start(name)
	}
	w.insert(400, "shop.order", "default", 25)
	pipelinetest.Await(t, "the first tasks to end", func() bool { return w.count("state = 0") == 0 })
	w.exec("UPDATE duetime_tasks SET created_at = created_at - 3600000, due_at = due_at - 3600000, run_at = run_at - 3600000, " +
		"finished_at = finished_at - 3600000, updated_at = updated_at - 3600000")
	return w
}

// answer is the endpoint's: it takes a while, and refuses what is bad.
func (w *whyWorld) answer(rw http.ResponseWriter, r *http.Request) {
	w.asked.Add(1)
	defer w.asked.Add(-1)
	select {
	case <-time.After(time.Duration(w.delay.Load())):
	case <-r.Context().Done():
	}
	if strings.HasSuffix(r.URL.Path, "bad") {
		rw.WriteHeader(http.StatusInternalServerError)
	}
}

func (w *whyWorld) start(name string) {
	w.t.Helper()
	command, _, _ := strings.Cut(name, " ")
	w.apps[name] = w.Ready(w.whole, command)
}

func (w *whyWorld) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(context.Background(), query, args...)
	pipelinetest.Must(w.t, err)
}

func (w *whyWorld) count(where string) (n int) {
	w.t.Helper()
	pipelinetest.Must(w.t, w.db.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM duetime_tasks WHERE "+where).Scan(&n))
	return n
}

// insert writes rows that are due now, as a service in another language would.
func (w *whyWorld) insert(n int, kind, queue string, attempts int) {
	w.t.Helper()
	w.exec(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, max_attempts, created_at, updated_at)
		SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, CONCAT('o', seq), ?, CRC32(CONCAT('o', seq)) MOD shards, now, now, '{}', ?, now, now
		FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t, `+pipelinetest.Numbers(1, n),
		kind, queue, attempts)
}

func (w *whyWorld) tool(args ...string) {
	w.t.Helper()
	if code, said, complaint := w.Tool(w.t, args...); code != 0 {
		w.t.Fatalf("%v: exit code %d, said %s %s", args, code, said, complaint)
	}
}

// why returns the rules of the answers.
func (w *whyWorld) why() (rules []string) {
	w.t.Helper()
	code, said, complaint := w.Tool(w.t, "why", "--json")
	var out struct {
		Answers []struct{ Rule, Sentence string }
	}
	if err := json.Unmarshal([]byte(said), &out); err != nil || code != 0 {
		w.t.Logf("why: exit code %d, said %q %q: %v", code, said, complaint, err)
	}
	for _, a := range out.Answers {
		rules = append(rules, a.Rule)
	}
	return rules
}

// await waits until the first answer is this one, for at most two minutes.
func (w *whyWorld) await(rule string) bool {
	w.t.Helper()
	began := time.Now()
	var last []string
	for time.Since(began) < 2*time.Minute {
		got := w.why()
		if !slices.Equal(got, last) {
			w.t.Logf("%s after %v: %v", rule, time.Since(began).Round(time.Second), got)
		}
		if last = got; len(got) > 0 && got[0] == rule {
			return true
		}
		time.Sleep(500 * time.Millisecond) // each look starts the tool
	}
	w.t.Logf("not %s", rule)
	return false
}

// well waits until nothing is wrong any more.
func (w *whyWorld) well() {
	w.t.Helper()
	pipelinetest.Await(w.t, "the deployment to be well", func() bool {
		got := w.why()
		return len(got) == 1 && (got[0] == "on-time" || got[0] == "was-late")
	})
}

// stuckWorker works until it is stopped. Its handler runs, and ignores the end of its time until then.
func (w *whyWorld) stuckWorker() (stop func()) {
	w.t.Helper()
	client := newService(w.t, w.Deployment, "stuck")
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	called, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	mux := worker.NewMux()
	kind := task.NewKind[struct{}]("shop.stuck", task.Queue("stuck"), task.Timeout(100*time.Millisecond))
	worker.Handle(mux, kind, func(context.Context, *worker.Tx, worker.Task[struct{}]) error {
		close(called)
		<-release
		return nil
	})
	go func() { ended <- client.Work(ctx, mux) }()
	w.insert(1, "shop.stuck", "stuck", 1)
	<-called
	return func() {
		close(release)
		cancel()
		pipelinetest.Must(w.t, <-ended)
		w.exec("DELETE FROM duetime_tasks WHERE kind = 'shop.stuck'")
	}
}

// fault makes one rule's answer the first.
type fault struct {
	rule       string
	play, mend func()
}

// faults are in the rules' order.
func (w *whyWorld) faults() []fault {
	server := func(s *pipelinetest.Server) (stop, start func()) {
		return func() { w.t.Helper(); pipelinetest.Must(w.t, s.Stop()) }, func() { w.t.Helper(); pipelinetest.Must(w.t, s.Start()) }
	}
	cancel := func() { w.exec("UPDATE duetime_tasks SET state = 2, version = version + 1 WHERE state = 0") }
	var release func()
	usual := func() { w.delay.Store(int64(usualDelay)); cancel() }
	kafkaStop, kafkaStart := server(w.kafka.Server)
	redisStop, redisStart := server(w.redis.Server)
	zooKeeperStop, zooKeeperStart := server(w.zookeeper.Server)
	return []fault{
		{"mysql-away", func() { pipelinetest.Must(w.t, w.mysql.Freeze()) }, func() { pipelinetest.Must(w.t, w.mysql.Thaw()) }},
		{"no-worker", func() {
			w.apps["worker"].Stop(w.t)
			pipelinetest.Must(w.t, w.apps["worker 2"].Kill())
			w.insert(3, "shop.order", "default", 25)
		}, func() {
			w.exec("DELETE FROM duetime_processes WHERE role = 'worker'") // an hour passes: the killed one is to be blamed for nothing more
			w.start("worker")
			w.start("worker 2")
		}},
		{"worker-silent", func() {
			w.delay.Store(int64(2 * time.Second))
			pipelinetest.Await(w.t, "both workers to be at work", func() bool {
				w.insert(20, "shop.order", "default", 25)
				return w.asked.Load() >= 8
			})
			pipelinetest.Must(w.t, w.apps["worker"].Freeze())
			w.delay.Store(int64(usualDelay))
		}, func() { pipelinetest.Must(w.t, w.apps["worker"].Thaw()); cancel() }},
		{"worker-stuck", func() { release = w.stuckWorker() }, func() { release() }},
		{"paused", func() { w.tool("pause", "mails"); w.insert(2, "shop.mail", "mails", 25) }, func() { w.tool("resume", "mails") }},
		{
			"limited", func() { w.tool("queue", "rate", "calls", "1/h"); w.insert(5, "shop.call", "calls", 25) },
			func() { w.tool("queue", "rate", "calls", "default"); cancel() },
		},
		{"slow-handler", func() { w.delay.Store(int64(time.Second)); w.insert(400, "shop.order", "default", 25) }, usual},
		{"behind", func() { w.insert(20_000, "shop.order", "default", 25) }, usual},
		{"kafka-away", kafkaStop, kafkaStart},
		{"redis-away", redisStop, redisStart},
		{"zookeeper-away", zooKeeperStop, zooKeeperStart},
		{"no-leader", func() { w.apps["event"].Stop(w.t) }, func() { w.start("event") }},
		{"unknown-kind", func() { w.insert(2, "nobody.knows", "default", 25) }, cancel},
		{"dying", func() { w.insert(2, "shop.bad", "default", 1) }, func() { w.exec("DELETE FROM duetime_tasks WHERE kind = 'shop.bad'") }},
	}
}

// Each fault of a real deployment gets its rule's answer first.
func TestWhyOfRealFaults(t *testing.T) {
	pipelinetest.Nightly(t) // it waits for silence, again and again
	t.Parallel()
	w := newWhyWorld(t)
	w.well()
	for _, f := range w.faults() {
		t.Run(f.rule, func(t *testing.T) {
			w.t = t
			f.play()
			if !w.await(f.rule) {
				t.Error("this fault was not answered first")
			}
			f.mend()
			w.well()
		})
	}
}

// Of twenty times one to three faults at random, at least eighteen are answered by the right rule first.
func TestWhyOfMixedFaults(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	w := newWhyWorld(t)
	all := w.faults()
	right := 0
	for round := range 20 {
		var played []int
		for len(played) < 1+round%3 {
			i := rand.IntN(len(all))
			if !slices.Contains(played, i) && !w.clash(all, append(played, i)) {
				played = append(played, i)
			}
		}
		slices.Sort(played)
		names := ""
		order := played
		if all[played[0]].rule == "mysql-away" { // the others need it
			order = append(slices.Clone(played[1:]), played[0])
		}
		for _, i := range order {
			names += " " + all[i].rule
			all[i].play()
		}
		t.Logf("round %d:%s", round, names)
		if w.await(all[played[0]].rule) {
			right++
		}
		for _, i := range played { // MySQL first
			all[i].mend()
		}
		w.well()
	}
	if right < 18 {
		t.Errorf("%d of 20 were answered by the right rule first", right)
	}
}

// clash reports whether faults can't be played at the same time: some need workers at work.
func (w *whyWorld) clash(all []fault, played []int) bool {
	workers := 0
	for _, i := range played {
		switch all[i].rule {
		case "no-worker", "worker-silent", "slow-handler", "behind":
			workers++
		}
	}
	return workers > 1
}
