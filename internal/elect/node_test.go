package elect

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// A create whose answer is lost leaves an unknown node. It must be removed before the candidate queues once more.
func TestOrphansAreSwept(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Servers: []string{pipelinetest.ZooKeeper(t).Addr()}, Root: "/" + pipelinetest.Namespace(t),
		Logger: slog.New(slog.DiscardHandler),
	}.withDefaults()
	s, err := openSession(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipelinetest.Must(t, s.close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	n := newNode(s, cfg.Root, "event", cfg.Logger)
	pipelinetest.Must(t, n.enter(ctx))
	for range 2 {
		_, err := call(ctx, s, "orphan", func(conn *zk.Conn) (string, error) {
			return conn.Create(n.dir+"/"+n.mark+"n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		})
		pipelinetest.Must(t, err)
	}
	pipelinetest.Must(t, n.enter(ctx))
	queue, err := n.queue(ctx)
	pipelinetest.Must(t, err)
	if diff := cmp.Diff([]string{strings.TrimPrefix(n.path, n.dir+"/")}, queue); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}

	n.path = "" // as after a create with an unknown outcome
	pipelinetest.Must(t, n.leave(ctx))
	if queue, err = n.queue(ctx); err != nil || len(queue) != 0 {
		t.Errorf("queue after leaving: got %v, %v, want none", queue, err)
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	for child, want := range map[string]int64{
		"_c_0123-n-0000000007": 7, "_c_0123-n-2147483647": 2147483647, "_c_0123-n--2147483648": -2147483648,
		"_c_0123-n-7": -1, "lock": -1, "_c_x-n-000000000x": -1,
	} {
		got, ok := sequence(child)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("sequence(%q): got %d, want %d", child, got, want)
		}
	}
}

func TestServersAreHostAndPort(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"a:2181/chroot", "a/chroot", "a:2181,b:2181", "a:x", "a:0", "a:", "a: 2181", "zk://a:2181"} {
		if got, err := addresses([]string{"b:2181", server}); err == nil {
			t.Errorf("%q was taken as %v", server, got)
		}
	}
	got, err := addresses([]string{"a", "b:1", "[::1]:2181"})
	if err != nil || !slices.Equal(got, []string{"a:2181", "b:1", "[::1]:2181"}) {
		t.Errorf("got %v, %v", got, err)
	}
}
