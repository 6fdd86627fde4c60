package pipelinetest

import (
	"fmt"
	"os/exec"
	"testing"
)

// OwnSecureZooKeeper starts a ZooKeeper for this test alone, with further lines of zoo.cfg, that also speaks TLS, at
// SecureAddr. It asks clients for a certificate of the authority's there, as ZooKeeper does unless told otherwise.
func OwnSecureZooKeeper(t testing.TB, a *Authority, lines ...string) *ZooKeeperServer {
	t.Helper()
	c := a.Issue(t, "zookeeper")
	s, err := startServer("", recipe{
		name:  "zookeeper",
		ports: 2,
		command: func(data string, ports []*portLock) (*exec.Cmd, error) {
			return zooKeeperCommand(data, append([]string{
				fmt.Sprintf("clientPort=%d", ports[0].port), fmt.Sprintf("secureClientPort=%d", ports[1].port),
				"secureClientPortAddress=127.0.0.1", "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
				"ssl.keyStore.location=" + c.BothFile, "ssl.trustStore.location=" + a.CAFile,
			}, lines...))
		},
		ready: zooKeeperReady,
	})
	Must(t, err)
	Own(t, s)
	return &ZooKeeperServer{s}
}

// SecureAddr returns where the clients of an OwnSecureZooKeeper connect over TLS.
func (s *ZooKeeperServer) SecureAddr() string { return s.ports[1].addr() }
