//go:build cluster

package elect_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// ensemble starts three servers that elect a leader among themselves.
func ensemble(t *testing.T) [3]*pipelinetest.ZooKeeperServer {
	t.Helper()
	lines := []string{"initLimit=20", "syncLimit=5"}
	ports := freePorts(t, 6)
	for i := range 3 {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[2*i], ports[2*i+1]))
	}
	var servers [3]*pipelinetest.ZooKeeperServer
	var starting errgroup.Group // none is ready before two are
	for i := range servers {
		data := t.TempDir() // its own dataDir, the last one named, for a member must know its number
		pipelinetest.Must(t, os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o600))
		own := append(slices.Clone(lines), "dataDir="+data)
		starting.Go(func() (err error) {
			servers[i], err = pipelinetest.StartZooKeeper("", own...)
			return err
		})
	}
	err := starting.Wait()
	t.Cleanup(func() {
		for _, server := range servers {
			if server != nil {
				pipelinetest.Must(t, server.Kill())
			}
		}
	})
	pipelinetest.Must(t, err)
	return servers
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		var loopback net.ListenConfig
		l, err := loopback.Listen(t.Context(), "tcp", "127.0.0.1:0")
		pipelinetest.Must(t, err)
		defer func() { pipelinetest.Must(t, l.Close()) }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func TestEnsembleLosesAServer(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	addrs := []string{servers[0].Addr(), servers[1].Addr(), servers[2].Addr()}
	t.Logf("ensemble %s", strings.Join(addrs, ","))
	s := newStage(zooWorld(t, addrs...))
	players := map[string]*player{}
	for _, who := range []string{"a", "b", "c"} {
		players[who] = s.stand(t, who)
	}
	_, epoch := s.leader(t, 0)
	for i, server := range servers { // one of the three is the ensemble's own leader
		pipelinetest.Must(t, server.Kill())
		s.goesOn(t, read(s.index, func() string { return s.by }), 500)
		pipelinetest.Must(t, server.Start())
		t.Logf("server %d back, %s leads", i+1, read(s.index, func() string { return s.by }))
	}
	pipelinetest.Must(t, servers[0].Kill())
	for range 2 { // elections with two servers of three
		var who string
		who, epoch = s.leader(t, epoch-1)
		players[who].cancel()
		<-players[who].left
		s.leader(t, epoch)
	}
}
