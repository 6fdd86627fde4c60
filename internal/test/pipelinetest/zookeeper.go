package pipelinetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	zooKeeperJar = "/usr/share/java/zookeeper.jar"
	// slf4jJar makes ZooKeeper print to its log; the package libslf4j-java has it.
	slf4jJar = "/usr/share/java/slf4j-simple.jar"
	// nettyJars are what ZooKeeper's own jar leaves out of the Netty that it speaks TLS with.
	nettyJars = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:/usr/share/java/netty-transport-native-unix-common.jar"
	// zooKeeperTick is by how many milliseconds the end of a session may be late: it comes with a tick.
	zooKeeperTick = 250
)

// ZooKeeperServer is a ZooKeeper of one node. Sessions of 1 s to 10 s are granted as asked.
type ZooKeeperServer struct{ *Server }

// StartZooKeeper starts a ZooKeeper in dir (empty: a folder of the run's own) with further lines of zoo.cfg.
func StartZooKeeper(dir string, lines ...string) (*ZooKeeperServer, error) {
	s, err := startServer(dir, recipe{
		name:  "zookeeper",
		ports: 1,
		command: func(data string, ports []*portLock) (*exec.Cmd, error) {
			return zooKeeperCommand(data, append([]string{fmt.Sprintf("clientPort=%d", ports[0].port)}, lines...))
		},
		ready: zooKeeperReady,
	})
	if err != nil {
		return nil, err
	}
	return &ZooKeeperServer{s}, nil
}

// zooKeeperCommand writes zoo.cfg beside the data and returns what runs it.
func zooKeeperCommand(data string, lines []string) (*exec.Cmd, error) {
	for _, jar := range []string{zooKeeperJar, slf4jJar} {
		if _, err := os.Stat(jar); err != nil {
			return nil, fmt.Errorf("%s is not installed: run ./scripts/test", jar)
		}
	}
	cfg := append([]string{
		fmt.Sprintf("tickTime=%d", zooKeeperTick), "minSessionTimeout=1000", "maxSessionTimeout=10000",
		"dataDir=" + data, "clientPortAddress=127.0.0.1", "maxClientCnxns=0",
		"admin.enableServer=false", "4lw.commands.whitelist=srvr,ruok,mntr",
	}, lines...)
	path := filepath.Join(filepath.Dir(data), "zoo.cfg")
	if err := os.WriteFile(path, []byte(strings.Join(cfg, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write zoo.cfg: %w", err)
	}
	return java("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", zooKeeperJar+":"+slf4jJar+":"+nettyJars,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", path)
}

// java is a JVM that starts fast and stays small.
func java(args ...string) (*exec.Cmd, error) {
	path, err := program("java")
	if err != nil {
		return nil, err
	}
	base := []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"}
	return exec.Command(path, append(base, args...)...), nil //nolint:gosec,noctx // a fixed program, ended by kill
}

// zooKeeperReady asks srvr: a node that is up but has no quorum yet answers with another line.
func zooKeeperReady(ctx context.Context, addr string) error {
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "Zookeeper version") {
		return fmt.Errorf("zookeeper answers %q", strings.TrimSpace(answer))
	}
	return nil
}

// writeMyID tells a node of an ensemble which one it is.
func writeMyID(data string, id int) error {
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
		return fmt.Errorf("write myid: %w", err)
	}
	return nil
}

// state returns what the node takes itself for: leader, follower or standalone.
func (s *ZooKeeperServer) state() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	text, err := askAll(ctx, s.Addr(), "mntr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if state, ok := strings.CutPrefix(line, "zk_server_state\t"); ok {
			return strings.TrimSpace(state), nil
		}
	}
	return "", fmt.Errorf("node %s tells no state", s.Addr())
}
