package chaos_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the oracle's own connection

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// Timings that the processes run with: the defaults that users have.
const (
	zkSession    = 6 * time.Second
	kafkaSession = 6 * time.Second
)

const namespace = "duetime"

// kafkaLine is of server.properties, as Kafka comes: the tests' own Kafka takes shorter sessions.
const kafkaLine = "group.min.session.timeout.ms=6000"

// setup says what a row's world differs in.
type setup struct {
	previous bool     // begins with the version before the newest migration
	linked   []string // the servers that each process reaches by a proxy of its own: everyServer, or some
	ensemble bool     // ZooKeeper of three nodes
	secured  bool     // every link over TLS, each process as a user of its own
	kafka    []string // further lines of Kafka's server.properties
	redis    []string // further arguments of redis-server
	mysql    []string // further arguments of MySQL
	redoLog  string   // the size of its redo log; empty: the default
	rules    []string // further NAME=value of every process
	config   string   // the configuration file of every process; empty: none
	worker   string   // the package of the workers' command; empty: cmd/worker
	workers  int      // 0: two
	ahead    int      // seconds that the clock of the first worker's host is ahead
	rate     int      // calls a second; 0: as the other rows
	meal     time.Duration
	late     time.Duration // past its time a task shows that a fault is felt; 0: late
	pets     int

	// servers puts other servers in the place of those that are nil.
	servers func(t *testing.T, w *world)
}

// linksTo says whether a server is reached by proxies. They cost as much as the game itself, so that a row has those that
// it cuts.
func (s setup) linksTo(server string) bool { return slices.Contains(s.linked, server) }

// world is a deployment on servers of its own with all its processes: two event, two worker, a daemon and a game.
type world struct {
	pipelinetest.Deployment

	setup     setup
	memory    memory
	overlay   string // with which the row's own worker is built; empty: none
	mysql     *pipelinetest.MySQLServer
	front     string // where the processes find MySQL; empty: at its own address
	redis     *pipelinetest.RedisServer
	zookeeper *pipelinetest.ZooKeeperServer // nil with an ensemble
	ensemble  *pipelinetest.ZooKeeperEnsemble
	kafka     *pipelinetest.KafkaServer
	kafkas    []*pipelinetest.ToxicProxy // when linked to it: one for each process, in the order of seats

	db      *sql.DB // around all proxies
	events  []*seat
	workers []*seat
	daemon  *seat
	game    *seat
}

// seat is the place of one process, which outlives the process: who is started anew has the same links.
type seat struct {
	pipelinetest.App

	links links
	env   []string
}

// everyServer names the servers that a process can be linked to.
var everyServer = []string{"mysql", "redis", "zookeeper", "kafka"}

// links are a process's own ways to the servers; nil where the world is not linked.
type links struct{ mysql, redis, zookeeper, kafka *pipelinetest.ToxicProxy }

// all returns the links there are.
func (l links) all() []*pipelinetest.ToxicProxy {
	all := []*pipelinetest.ToxicProxy{l.mysql, l.redis, l.zookeeper, l.kafka}
	return slices.DeleteFunc(all, func(p *pipelinetest.ToxicProxy) bool { return p == nil })
}

const seats = 6

func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{setup: s, Deployment: pipelinetest.Deployment{Previous: s.previous}}
	if s.servers != nil {
		s.servers(t, w)
	}
	if s.ahead != 0 {
		w.overlay = pipelinetest.OtherClock(t)
	}
	w.openServers(t)
	var err error
	w.db, err = sql.Open("mysql", w.DSN+"?autocommit=1&completion_type=0") // the oracle's own sessions are as usual
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = w.db.Close() })
	if s.config != "" {
		w.Config = filepath.Join(t.TempDir(), "duetime.yaml")
		pipelinetest.Must(t, os.WriteFile(w.Config, []byte(s.config), 0o600))
	}
	w.Migrate(t)
	for range 2 {
		w.events = append(w.events, w.seat(t, "event", 0))
	}
	for range cmp.Or(s.workers, 2) {
		w.workers = append(w.workers, w.seat(t, "worker", 2))
	}
	w.daemon, w.game = w.seat(t, "daemon", 4), w.seat(t, "game", 5)
	for _, p := range w.all() {
		w.start(t, p)
	}
	for _, p := range w.all() {
		p.WaitReady(t)
	}
	w.leader(t)
	return w
}

// openServers starts the servers that are not there yet, side by side with nothing: the machine is small.
func (w *world) openServers(t *testing.T) {
	t.Helper()
	s := w.setup
	if s.secured {
		w.secure(t)
	}
	if w.mysql == nil {
		args := slices.Clone(s.mysql)
		if s.redoLog != "" {
			args = append(args, pipelinetest.RedoLog(t, s.redoLog))
		}
		w.mysql = pipelinetest.OwnMySQL(t, args...)
	}
	if w.Redis == "" && w.redis == nil {
		w.redis = pipelinetest.OwnRedis(t, s.redis...)
	}
	switch {
	case w.zookeeper != nil:
	case s.ensemble:
		w.ensemble = pipelinetest.OwnZooKeeperEnsemble(t)
	default:
		w.zookeeper = pipelinetest.OwnZooKeeper(t)
	}
	lines := append([]string{kafkaLine}, s.kafka...)
	switch {
	case w.kafka != nil:
	case s.linksTo("kafka"):
		w.kafka, w.kafkas = pipelinetest.OwnKafkaBehindMany(t, seats, lines...)
	default:
		w.kafka = pipelinetest.OwnKafka(t, lines...)
	}
	if !s.secured {
		w.address(t)
	}
	w.Rules = append([]string{
		"DUETIME_GAME__MEAL=" + s.meal.String(), "DUETIME_GAME__SPEEDUP=" + (s.meal / 5).String(),
		"DUETIME_GAME__START__FOOD=1000000", "DUETIME_GAME__START__SPEEDUP_CARDS=1000000", "DUETIME_GAME__START__AUTOFEED_CARDS=1000000",
	}, s.rules...)
}

// address says where the servers are.
func (w *world) address(t *testing.T) {
	t.Helper()
	w.Namespace, w.DSN, w.Kafka = namespace, w.mysql.NewSchema(t), w.kafka.Addr()
	if w.front != "" {
		w.DSN = strings.Replace(w.DSN, w.mysql.Addr(), w.front, 1)
	}
	if w.Redis == "" {
		w.Redis = w.redis.Addr()
	}
	if w.ensemble != nil {
		w.ZooKeeper = strings.Join(w.ensemble.Addrs(), ",")
	} else {
		w.ZooKeeper = w.zookeeper.Addr()
	}
}

// secure starts servers that speak TLS and know the users.
func (w *world) secure(t *testing.T) {
	t.Helper()
	servers := pipelinetest.OwnSecuredServers(t, namespace, kafkaLine)
	w.mysql, w.redis, w.zookeeper, w.kafka = servers.MySQL, servers.Redis, servers.ZooKeeper, servers.Kafka
	w.Deployment = servers.Deploy(t)
}

// seat makes a place for a process, with links of its own if the world has them; nth counts the seats of other names
// before it.
func (w *world) seat(t *testing.T, name string, nth int) *seat {
	t.Helper()
	s := &seat{App: pipelinetest.App{Name: name}}
	switch name {
	case "event":
		nth += len(w.events)
	case "worker":
		nth += len(w.workers)
		if len(w.workers) == 0 {
			s.env = append(s.env, fmt.Sprintf("CLOCK_AHEAD=%d", w.setup.ahead))
		}
	}
	if w.setup.linksTo("mysql") {
		s.links.mysql = pipelinetest.Proxy(t, w.mysql.Addr())
		s.env = append(s.env, "DUETIME_MYSQL__DSN="+strings.Replace(w.DSN, w.mysql.Addr(), s.links.mysql.Addr(), 1))
	}
	if w.setup.linksTo("redis") {
		s.links.redis = pipelinetest.Proxy(t, w.redis.Addr())
		s.env = append(s.env, "DUETIME_REDIS__ADDRS="+s.links.redis.Addr())
	}
	if w.setup.linksTo("zookeeper") {
		s.links.zookeeper = pipelinetest.Proxy(t, w.zookeeper.Addr())
		s.env = append(s.env, "DUETIME_ZOOKEEPER__SERVERS="+s.links.zookeeper.Addr())
	}
	if w.setup.linksTo("kafka") {
		s.links.kafka = w.kafkas[nth]
		s.env = append(s.env, "DUETIME_KAFKA__BROKERS="+s.links.kafka.Addr())
	}
	return s
}

func (w *world) all() []*seat {
	return append(append([]*seat{w.daemon, w.game}, w.events...), w.workers...)
}

// start runs the seat's process anew.
func (w *world) start(t *testing.T, s *seat, more ...string) {
	t.Helper()
	env := append(slices.Clone(s.env), more...)
	if s.Name == "worker" && w.setup.worker != "" {
		s.App = pipelinetest.App{Proc: pipelinetest.Run(t, w.workerBinary(t), w.EnvOf(s.Name, env...), w.Args()...), Name: s.Name}
	} else {
		s.App = w.Start(t, s.Name, env...)
	}
	w.memory.watch(t, s.App)
}

// workerBinary builds the row's own worker.
func (w *world) workerBinary(t *testing.T) string {
	t.Helper()
	if w.overlay == "" {
		return pipelinetest.Build(t, w.setup.worker)
	}
	return pipelinetest.Build(t, w.setup.worker, "-overlay="+w.overlay)
}

// restart runs the seat's process anew and waits until it is ready.
func (w *world) restart(t *testing.T, s *seat, more ...string) {
	t.Helper()
	w.start(t, s, more...)
	s.WaitReady(t)
}

// leader waits until an event process says that it leads, and returns it and the other one.
func (w *world) leader(t *testing.T) (leads, waits *seat) {
	t.Helper()
	pipelinetest.Await(t, "an event process to lead", func() bool {
		for i, p := range w.events {
			if p.Running() && p.Leads(t) {
				leads, waits = p, w.events[1-i]
				return true
			}
		}
		return false
	})
	return leads, waits
}
