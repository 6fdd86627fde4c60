package bench_test

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/bench/server"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// options of a world.
type options struct {
	workers int      // handlers, and connections to MySQL; default workers
	shards  int      // of duetime; default its own
	pool    string   // memory of the SQL server for pages
	rescue  bool     // a system that takes long to notice a dead worker is set to notice it soon
	rules   []string // of duetime; further NAME=value of every process
}

// world is one system on fresh servers.
type world struct {
	testing.TB

	bench   *bench
	system  system
	options options

	dir        string
	env        queue.Env
	db         *sql.DB
	redis      *redis.Client
	own        []freezer               // servers
	frozen     bool                    // they and duetime's processes stand still
	deployment pipelinetest.Deployment // of duetime
	event      *pipelinetest.App       // of duetime, once they run
	daemon     *pipelinetest.App
	programs   string // folder of duetime's programs and their driver; empty: as released

	producer, worker *driver
	opened           time.Time
	first            time.Duration // from there to the end of the first run
	started          int           // drivers so far
	effect           bool          // what the worker was told
	next             int64         // the first job number that was not given out
	rate             float64       // jobs a second that the last bulk made
}

// schema has the tables of the effects.
var schema = []string{
	`CREATE TABLE bench_tasks (id BIGINT PRIMARY KEY, due_at BIGINT NOT NULL, state TINYINT NOT NULL DEFAULT 0)`,
	`CREATE TABLE bench_pets (id BIGINT PRIMARY KEY, meals INT NOT NULL DEFAULT 0)`,
}

// open starts the system's servers and the process that makes its jobs.
func (b *bench) open(t testing.TB, s system, o options) *world {
	t.Helper()
	dir, err := os.MkdirTemp(b.folder, s.name+"-")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{TB: t, bench: b, system: s, options: o, dir: dir, opened: time.Now()}
	w.env = queue.Env{System: s.name, Dir: w.folder("state"), Workers: cmp.Or(o.workers, workers), Rescue: o.rescue}
	w.servers()
	if s.name == report.Raw {
		return w
	}
	if ours(s) {
		w.deploy()
	}
	w.producer = w.start("produce")
	return w
}

func (w *world) folder(name string) string {
	dir := filepath.Join(w.dir, name)
	pipelinetest.Must(w, os.MkdirAll(dir, 0o700))
	return dir
}

// serversNote tells how the servers are set.
const serversNote = "Servers: MySQL with a flush at each commit, of its binary log too, a buffer pool of 4 GB and a log of 2 GB; Postgres with a flush at each " +
	"commit, shared buffers and a WAL of 4 GB; Redis with its append-only file flushed each second; RabbitMQ with durable queues, " +
	"persistent messages and confirms; RocketMQ with a flush before each answer; one Kafka broker, 24 partitions, acknowledged by all replicas; one ZooKeeper. 32 handlers run " +
	"side by side in each peer, with as many connections to MySQL; duetime runs 4 batches of up to 100 on 4 connections. All " +
	"processes in Go have GOGC at 200."

// servers starts what the system needs, with its data on disk: MySQL with a flush at each commit, Redis with its log
// flushed each second.
func (w *world) servers() {
	w.Helper()
	buffer, log := "4G", "2G"
	if w.bench.scale < 1 {
		buffer, log = "256M", "64M"
	}
	buffer = cmp.Or(w.options.pool, buffer)
	args := []string{
		"--innodb-flush-log-at-trx-commit=1", "--log-bin=binlog", "--sync-binlog=1", "--innodb-buffer-pool-size=" + buffer, pipelinetest.RedoLog(w, log),
	}
	mysql, err := pipelinetest.StartMySQL(w.folder("mysql"), append(args, strings.Fields(os.Getenv("BENCH_SQL_ARGS"))...)...)
	pipelinetest.Must(w, err)
	w.owns(mysql.Server)
	w.deployment.DSN = mysql.NewSchema(w)
	w.env.MySQL = w.deployment.DSN + "?interpolateParams=true" // one round trip a statement instead of two
	w.db, err = sql.Open("mysql", w.env.MySQL)
	pipelinetest.Must(w, err)
	w.Cleanup(func() { _ = w.db.Close() })
	for _, table := range schema {
		w.exec(table)
	}
	if w.system.name == report.Scan { // nobody else looks for due rows there
		w.exec("ALTER TABLE bench_tasks ADD KEY (state, due_at)")
	}
	if w.system.redis {
		s, err := pipelinetest.StartRedis(w.folder("redis"), "--appendonly", "yes", "--appendfsync", "everysec",
			"--hz", cmp.Or(w.system.redisHz, "10"))
		pipelinetest.Must(w, err)
		w.owns(s.Server)
		w.env.Redis, w.deployment.Redis = s.Addr(), s.Addr()
		w.redis = redis.NewClient(&redis.Options{Addr: s.Addr()})
		w.Cleanup(func() { _ = w.redis.Close() })
	}
	if w.system.postgres {
		w.env.Postgres = server.OwnPostgres(w, w.folder("postgres"))
	}
	if w.system.rabbitmq {
		w.env.AMQP = server.OwnRabbitMQ(w, w.folder("rabbitmq"))
	}
	if w.system.rocketmq {
		w.env.RocketMQ = server.OwnRocketMQ(w, w.folder("rocketmq"), "java/broker/target/lib")
	}
}

// owns removes the server after the test.
func (w *world) owns(s *pipelinetest.Server) {
	pipelinetest.Own(w, s)
	w.own = append(w.own, s)
}

// kafka starts Kafka.
func (w *world) kafka() {
	w.Helper()
	s, err := pipelinetest.StartKafka(w.folder("kafka"))
	pipelinetest.Must(w, err)
	w.owns(s.Server)
	w.deployment.Kafka = s.Addr()
}

// deploy adds what duetime alone needs, and makes its tables and topics.
func (w *world) deploy() {
	w.Helper()
	w.kafka()
	s, err := pipelinetest.StartZooKeeper(w.folder("zookeeper"))
	pipelinetest.Must(w, err)
	w.owns(s.Server)
	w.deployment.ZooKeeper, w.deployment.Namespace = s.Addr(), "bench"
	if n := w.options.shards; n > 0 {
		w.deployment.Rules = append(w.deployment.Rules, "DUETIME_SHARDS="+strconv.Itoa(n))
	}
	w.deployment.Rules = append(w.deployment.Rules, w.options.rules...)
	w.deployment.Migrate(w)
}

// start runs a process of the system.
func (w *world) start(role string) *driver {
	w.Helper()
	env := w.env
	env.Role = role
	text, err := json.Marshal(env)
	pipelinetest.Must(w, err)
	command := []string{w.bench.driver}
	if w.programs != "" {
		command = []string{filepath.Join(w.programs, "driver")}
	}
	if w.system.node {
		command = []string{"node", "bullmq/driver.mjs"}
	}
	if w.system.java {
		command = []string{
			"java", "-Duser.home=" + w.env.Dir, "-cp", "java/target/classes:java/target/lib/*", "com.duetime.bench.Driver",
		}
	}
	more := []string{"BENCH=" + string(text)}
	if ours(w.system) {
		more = append(more, w.deployment.Env()...)
	}
	w.started++
	return startDriver(w, role, filepath.Join(w.dir, fmt.Sprintf("driver-%d.log", w.started)), more, command...)
}

// work makes the system run what is due, with an effect each or without, in a fresh process, and waits until it does so.
func (w *world) work(effect bool) {
	w.Helper()
	w.running()
	if w.worker != nil {
		w.worker.stop(w)
	}
	w.worker = w.start("work")
	w.effect = effect
	w.worker.must(w, protocol.Request{Op: "work", Effect: effect})
	w.warm()
}

// running starts duetime's own processes, once.
func (w *world) running() {
	w.Helper()
	if ours(w.system) && w.event == nil {
		w.event, w.daemon = w.ready("event"), w.ready("daemon")
	}
}

func (w *world) ready(name string) *pipelinetest.App {
	if w.programs == "" {
		app := w.deployment.Ready(w, name)
		return &app
	}
	app := pipelinetest.App{Proc: pipelinetest.Run(w, filepath.Join(w.programs, name), w.deployment.Env()), Name: name}
	app.WaitReady(w)
	return &app
}

func (w *world) exec(statement string, args ...any) {
	w.Helper()
	_, err := w.db.ExecContext(w.Context(), statement, args...)
	pipelinetest.Must(w, err)
}

// record notes a figure of this system.
func (w *world) record(m report.Metric, value float64) {
	w.Helper()
	w.Logf("%s, %s: %.4g %s", w.system.name, m.Name, value, m.Unit)
	w.bench.results.Add(w.system.name, m, value)
}
