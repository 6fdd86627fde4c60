package elect_test

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// zooWorld is a queue of its own at the given servers.
func zooWorld(t *testing.T, servers ...string) world {
	t.Helper()
	root := "/" + pipelinetest.Namespace(t)
	conn := operator(t, servers...)
	return world{
		dir: root + "/" + office,
		count: func(t *testing.T) int {
			t.Helper()
			queue, _, err := conn.Children(root + "/" + office)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatalf("list the candidates: %v", err)
			}
			return len(queue)
		},
		open: func(t *testing.T, cfg elect.Config, epochs elect.Epochs) *elect.ZooKeeper {
			t.Helper()
			cfg.Root = root
			if cfg.Servers == nil {
				cfg.Servers = servers
			}
			e, err := elect.NewZooKeeper(cfg, epochs)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
		depose: func(t *testing.T) {
			t.Helper()
			queue := candidates(t, conn, root+"/"+office)
			if len(queue) == 0 {
				t.Fatal("nobody to depose")
			}
			if err := conn.Delete(root+"/"+office+"/"+queue[0], -1); err != nil {
				t.Fatalf("delete the first node: %v", err)
			}
		},
	}
}

// operator is a connection of the test.
func operator(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(servers, 5*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// candidates lists the nodes by their sequence.
func candidates(t *testing.T, conn *zk.Conn, dir string) []string {
	t.Helper()
	children, _, err := conn.Children(dir)
	if err != nil {
		t.Fatalf("list %s: %v", dir, err)
	}
	number := func(child string) string { return child[strings.LastIndex(child, "-")+1:] }
	slices.SortFunc(children, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return children
}
