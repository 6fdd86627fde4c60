package pipelinetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// The environment variables by which a run of many test processes tells them what they share.
const (
	lentRedis     = "DUETIME_TEST_REDIS_ADDR"
	lentMySQL     = "DUETIME_TEST_MYSQL_ADDR"
	lentZooKeeper = "DUETIME_TEST_ZOOKEEPER_ADDR"
	lentKafka     = "DUETIME_TEST_KAFKA_ADDR"
	lentBin       = "DUETIME_TEST_BIN" // the folder in which Build keeps what it has built
)

// errLent says that a test wants to stop or freeze what all tests of the run share.
var errLent = errors.New("the server is shared by the whole run: take one of the test's own")

// Lend starts servers for several test processes: each one that gets the variables takes them instead of starting its own, and
// builds no command that another one has built. stop ends the servers. The SQL server is the one that DUETIME_TEST_SQL names.
func Lend() (variables []string, stop func(), err error) {
	redis, err1 := sharedRedis()
	mysql, err2 := sharedMySQL()
	zooKeeper, err3 := sharedZooKeeper()
	kafka, err4 := sharedKafka()
	bin, err5 := runFolder()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		stopShared()
		return nil, nil, err
	}
	return []string{
		lentRedis + "=" + redis.Addr(), lentMySQL + "=" + mysql.Addr(),
		lentZooKeeper + "=" + zooKeeper.Addr(), lentKafka + "=" + kafka.Addr(),
		lentBin + "=" + bin,
	}, stopShared, nil
}

// Refuse makes this process start servers of its own, whatever the run lends.
func Refuse() {
	for _, variable := range []string{lentRedis, lentMySQL, lentZooKeeper, lentKafka, lentBin} {
		_ = os.Unsetenv(variable)
	}
}

// borrowed is the server of the run at the address that the variable gives, or nil. It is not ours to stop, to freeze or to
// discard, and its log is not ours to read.
func borrowed(variable string) (*Server, error) {
	addr := os.Getenv(variable)
	if addr == "" {
		return nil, nil
	}
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s is %q, and must be an address: %w", variable, addr, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("%s is %q, and must end with a port: %w", variable, addr, err)
	}
	return &Server{recipe: recipe{name: "the run's server"}, ports: []*portLock{{port: port}}, lent: true}, nil
}
