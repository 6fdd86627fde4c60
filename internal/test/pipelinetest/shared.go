package pipelinetest

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The shared servers of this test process: the run's, or else each is started by the first test that asks.
var (
	sharedRedis = once(lentRedis, func() (*RedisServer, error) { return StartRedis("") },
		func(s *Server) (*RedisServer, error) { return &RedisServer{s}, nil })
	sharedMySQL = once(lentMySQL, func() (*MySQLServer, error) { return StartMySQL("") },
		func(s *Server) (*MySQLServer, error) { p, err := chosenProduct(); return &MySQLServer{s, p}, err })
	sharedZooKeeper = once(lentZooKeeper, func() (*ZooKeeperServer, error) { return StartZooKeeper("") },
		func(s *Server) (*ZooKeeperServer, error) { return &ZooKeeperServer{s}, nil })
	sharedKafka = once(lentKafka, func() (*KafkaServer, error) { return StartKafka("") },
		func(s *Server) (*KafkaServer, error) { return &KafkaServer{s}, nil })

	stopsMu sync.Mutex
	stops   []func()
)

// once takes the run's server at the first call, or starts one and notes how to discard it, and answers the same ever after.
func once[S interface{ discard() }](variable string, start func() (S, error), take func(*Server) (S, error)) func() (S, error) {
	return sync.OnceValues(func() (S, error) {
		lent, err := borrowed(variable)
		if lent != nil {
			return take(lent)
		}
		if err != nil {
			return *new(S), err
		}
		s, err := start()
		if err == nil {
			stopsMu.Lock()
			defer stopsMu.Unlock()
			stops = append(stops, s.discard)
		}
		return s, err
	})
}

// Redis returns the redis-server that the tests of this process share. Use keys under Namespace; never stop, flush or
// reconfigure it: take OwnRedis for that.
func Redis(t testing.TB) *RedisServer { t.Helper(); return need(t, sharedRedis) }

// MySQL returns the server that the tests of this process share. Work in a schema from NewSchema; take OwnMySQL to
// stop it.
func MySQL(t testing.TB) *MySQLServer { t.Helper(); return need(t, sharedMySQL) }

// ZooKeeper returns the ZooKeeper that the tests of this process share. Use nodes under Namespace; take OwnZooKeeper
// to stop it.
func ZooKeeper(t testing.TB) *ZooKeeperServer { t.Helper(); return need(t, sharedZooKeeper) }

// Kafka returns the Kafka that the tests of this process share. Use topics and groups that begin with Namespace; take
// OwnKafka to stop it.
func Kafka(t testing.TB) *KafkaServer { t.Helper(); return need(t, sharedKafka) }

func need[S any](t testing.TB, start func() (S, error)) S {
	t.Helper()
	needServers(t)
	s, err := start()
	Must(t, err)
	return s
}

// OwnRedis starts a redis-server for this test alone, with further arguments of its command line.
func OwnRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	needServers(t)
	s, err := StartRedis("", args...)
	Must(t, err)
	Own(t, s.Server)
	return s
}

// OwnMySQL starts a MySQL (see MySQLServer) for this test alone, with further arguments of its command line.
func OwnMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	needServers(t)
	s, err := StartMySQL("", args...)
	Must(t, err)
	Own(t, s.Server)
	return s
}

// OwnZooKeeper starts a ZooKeeper for this test alone, with further lines of zoo.cfg.
func OwnZooKeeper(t testing.TB, lines ...string) *ZooKeeperServer {
	t.Helper()
	needServers(t)
	s, err := StartZooKeeper("", lines...)
	Must(t, err)
	Own(t, s.Server)
	return s
}

// OwnKafka starts a Kafka for this test alone, with further lines of server.properties.
func OwnKafka(t testing.TB, lines ...string) *KafkaServer {
	t.Helper()
	needServers(t)
	s, err := StartKafka("", lines...)
	Must(t, err)
	Own(t, s.Server)
	return s
}

// OwnKafkaBehind starts a Kafka for this test alone whose clients reach it only through the proxy: connect to the
// proxy's address, and metadata names the proxy again. The server's own Addr goes around it.
func OwnKafkaBehind(t testing.TB, lines ...string) (*KafkaServer, *ToxicProxy) {
	t.Helper()
	s, proxies := OwnKafkaBehindMany(t, 1, lines...)
	return s, proxies[0]
}

// OwnKafkaBehindMany is OwnKafkaBehind with n proxies: a client stays on the one that it connects to, so each process
// under test can have a link of its own.
func OwnKafkaBehindMany(t testing.TB, n int, lines ...string) (*KafkaServer, []*ToxicProxy) {
	t.Helper()
	return ownKafkaBehind(t, n, nil, lines)
}

func ownKafkaBehind(t testing.TB, n int, secure *kafkaSecurity, lines []string) (*KafkaServer, []*ToxicProxy) {
	t.Helper()
	needServers(t)
	fronts, err := reservePorts(n)
	Must(t, err)
	t.Cleanup(func() { releasePorts(fronts) })
	var addrs []string
	for _, front := range fronts {
		addrs = append(addrs, front.addr())
	}
	s, err := startKafka("", kafkaFronts{addrs, secure}, lines)
	Must(t, err)
	Own(t, s.Server)
	var proxies []*ToxicProxy
	for i, addr := range addrs {
		proxies = append(proxies, proxyAt(t, addr, s.ports[kafkaBehind+i].addr()))
	}
	return s, proxies
}

// Own discards a server that one of the Start functions made after the test, and shows the end of its log if the test
// failed.
func Own(t testing.TB, s *Server) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.recipe.name, logTail(s.Log()))
		}
		s.discard()
	})
}

// Namespace returns a random name of lower-case letters and digits, by which this test's keys, topics, groups and
// nodes differ from every other test's.
func Namespace(t testing.TB) string {
	t.Helper()
	return "t" + strings.ToLower(rand.Text()[:12])
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Option adds to what Main does.
type Option func(*mainOptions)

type mainOptions struct{ verify bool }

// VerifyGoroutines makes Main fail the run if goroutines are left after the last test and the stop of the servers.
func VerifyGoroutines() Option { return func(o *mainOptions) { o.verify = true } }

// IgnoreServers keeps goleak, inside one test, from taking the goroutines that wait for servers for leaks.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/duetime/duetime/internal/test/pipelinetest.(*process).run")
}

// Main runs the package's tests, stops the shared servers and returns the exit code; TestMain passes it to os.Exit.
func Main(m *testing.M, options ...Option) int {
	var o mainOptions
	for _, option := range options {
		option(&o)
	}
	code := m.Run()
	stopShared()
	if !o.verify || code != 0 {
		return code
	}
	// A client's connection ends when its server answers, or not any more: on a slow machine that takes longer than goleak waits.
	var err error
	for range 16 {
		if err = goleak.Find(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "goroutines left after the tests:", err)
	return 1
}

// stopShared ends the shared servers and removes the run's folder, if there is one.
func stopShared() {
	stopsMu.Lock()
	defer stopsMu.Unlock()
	for _, stop := range stops {
		stop()
	}
	stops = nil
	if runUsed.Load() {
		if dir, err := runFolder(); err == nil {
			_ = removeTree(dir)
		}
	}
}

// Await polls until condition holds, and ends the test after two minutes, naming what it waited for.
func Await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
