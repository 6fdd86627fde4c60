package index_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// downAfter is how long the tests' masters may be silent until sentinels fail over.
const downAfter = time.Second

func openSentinel(t *testing.T, servers *pipelinetest.RedisSentinels) *index.Index {
	t.Helper()
	return open(t, index.Config{
		Mode: index.Sentinel, MasterName: pipelinetest.MasterName, Addrs: servers.Addrs(), ReadTimeout: 500 * time.Millisecond,
	})
}

// promoted polls the replica itself until it is the master.
func promoted(t *testing.T, servers *pipelinetest.RedisSentinels) time.Time {
	t.Helper()
	replica := redis.NewClient(&redis.Options{Addr: servers.Replica.Addr()})
	defer func() { _ = replica.Close() }()
	eventually(t, "promotion", func(ctx context.Context) bool {
		info, err := replica.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	return time.Now()
}

// putSoon puts as services do, with a timeout for each try, until a try succeeds.
func putSoon(t *testing.T, x *index.Index, tasks ...task.Task) {
	t.Helper()
	eventually(t, "put", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		return x.Put(ctx, tasks) == nil
	})
}

// The master and one sentinel are on one host, which is lost: connections stay open, and nothing answers.
func TestSentinelHostLost(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		t.Run("with sentinel "+string(rune('0'+n)), func(t *testing.T) {
			t.Parallel()
			servers := pipelinetest.OwnRedisSentinels(t, downAfter)
			x := openSentinel(t, servers)
			a := pending("o", 10, 1)
			put(t, x, a)
			in := wakes(t, x, 1)
			pipelinetest.Must(t, servers.Master.Freeze())
			pipelinetest.Must(t, servers.Sentinels[n].Freeze())
			began := promoted(t, servers)
			putSoon(t, x, moved(a, 5, 2))
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the first put succeeded %v after the promotion, want it within seconds", took)
			}
			subscribed(t, x, 0, in)
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("wake-ups came %v after the promotion, want them within seconds", took)
			}
		})
	}
}

// In a planned failover the old master acts as a master for some seconds, for all its connections.
func TestSentinelPlannedFailover(t *testing.T) {
	t.Parallel()
	servers := pipelinetest.OwnRedisSentinels(t, downAfter)
	x := openSentinel(t, servers)
	put(t, x, pending("o", 10, 1))
	in := wakes(t, x, 1)
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: servers.Sentinels[0].Addr()})
	t.Cleanup(func() { _ = sentinel.Close() })
	pipelinetest.Must(t, sentinel.Failover(t.Context(), pipelinetest.MasterName).Err())
	began := promoted(t, servers)
	replica := redis.NewClient(&redis.Options{Addr: servers.Replica.Addr()})
	t.Cleanup(func() { _ = replica.Close() })
	eventually(t, "subscription at the new master", func(ctx context.Context) bool {
		n, err := replica.Publish(ctx, x.Key(0, "wake"), "7").Result()
		return err == nil && n > 0
	})
	took := time.Since(began)
	if w := <-in; w.At.UnixMilli() != 7 {
		t.Errorf("got the wake-up %v", w)
	}
	if took > 4*time.Second { // a second until the next round, and slack
		t.Errorf("subscribed %v after the promotion, want 2 s", took)
	}
}

// The only configured sentinel has named the others before it is lost.
func TestSentinelsThatAreNotNamedAreFound(t *testing.T) {
	t.Parallel()
	servers := pipelinetest.OwnRedisSentinels(t, downAfter)
	x := open(t, index.Config{
		Mode: index.Sentinel, MasterName: pipelinetest.MasterName, Addrs: servers.Addrs()[:1], ReadTimeout: 500 * time.Millisecond,
	})
	a := pending("o", 10, 1)
	put(t, x, a)
	pipelinetest.Must(t, servers.Sentinels[0].Kill())
	pipelinetest.Must(t, servers.Master.Kill())
	promoted(t, servers)
	putSoon(t, x, moved(a, 5, 2))
}

func TestSentinelRefusals(t *testing.T) {
	t.Parallel()
	servers := pipelinetest.OwnRedisSentinels(t, downAfter)
	for _, addr := range servers.Addrs() {
		admin := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
		pipelinetest.Must(t, admin.Do(t.Context(), "ACL", "SETUSER", "duetime", "on", ">right", "+@all").Err())
		pipelinetest.Must(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
		_ = admin.Close()
	}
	cfg := index.Config{Mode: index.Sentinel, MasterName: pipelinetest.MasterName, Addrs: servers.Addrs()}
	for name, change := range map[string]func(*index.Config){
		"none":           func(*index.Config) {},
		"wrong password": func(c *index.Config) { c.SentinelUsername, c.SentinelPassword = "duetime", "wrong" },
		"the master's":   func(c *index.Config) { c.Username, c.Password = "duetime", "right" },
	} {
		cfg := cfg
		change(&cfg)
		err := open(t, cfg).Ping(t.Context())
		if refusal := index.Refusal(err); refusal == nil || !strings.Contains(refusal.Error(), "redis.sentinel_password") || index.Away(err) {
			t.Errorf("%s: %v, want a refusal that names the sentinels' keys", name, err)
		}
	}
	cfg.SentinelUsername, cfg.SentinelPassword = "duetime", "right"
	x := open(t, cfg)
	put(t, x, pending("o", 1, 1))
	cfg.Password = "wrong"
	err := open(t, cfg).Ping(t.Context())
	if err == nil { // a default user without a password accepts everybody
		return
	}
	if refusal := index.Refusal(err); refusal == nil || strings.Contains(refusal.Error(), "sentinel") {
		t.Errorf("wrong password of the master: %v, want a refusal that names its keys", err)
	}
}

func TestNobodyWaitsLongWithoutSentinels(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	x := open(t, index.Config{Mode: index.Sentinel, MasterName: "m", Addrs: []string{"127.0.0.1:1", silent.Addr().String()}})
	began := time.Now()
	if err := x.Ping(t.Context()); !index.Away(err) || !strings.Contains(err.Error(), "no master known") {
		t.Errorf("ping: %v, want it to be away", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
