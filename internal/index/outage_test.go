package index_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestFullRedisStillDrains(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t, "--maxmemory-policy", "noeviction")
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	a, b, c, fresh := pending("o", 1, 1), pending("o", 2, 1), pending("o", 3, 1), pending("o", 4, 1)
	put(t, x, a, b, c)
	pipelinetest.Must(t, x.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())

	err := x.Put(t.Context(), []task.Task{fresh})
	if !index.IsOOM(err) || index.Away(err) || index.IsRefused(err) {
		t.Fatalf("put into a full redis: %v, want an OOM refusal", err)
	}
	diff(t, "nothing half written", standings(t, x, fresh), []protocol.Standing{absent})

	diff(t, "claim", claim(t, x, 9, 2), protocol.Claim{Entries: entries(a, b), Next: at(3)})
	diff(t, "ack", claim(t, x, 9, 9, entries(a, b)...).Entries, entries(c))
	fenced, err := worldtest.Acknowledge(t.Context(), x, 0, 2, entries(a)) // the first call of a new leader must store its epoch
	pipelinetest.Must(t, err)
	diff(t, "fenced", fenced, int64(0))
	put(t, x, ended(a, 2)) // drop
	diff(t, "repair", repair(t, x, protocol.Repair{Task: fresh, Seen: absent, Right: both(fresh)}), 1)
	diff(t, "standings", standings(t, x, a, b, fresh), []protocol.Standing{
		absent, {Due: protocol.NoScore, Owner: protocol.ScoreOf(b)}, both(fresh),
	})
	removed, err := x.Remove(t.Context(), 0, entry(fresh))
	pipelinetest.Must(t, err)
	diff(t, "remove", removed, true)
	token, err := x.BeginRebuild(t.Context(), 0)
	pipelinetest.Must(t, err)
	ok, err := x.EndRebuild(t.Context(), 0, token)
	pipelinetest.Must(t, err)
	diff(t, "rebuild", ok, true)
}

func TestScriptsAreSentAgainWhenTheServerLostThem(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	var all []task.Task
	for i := range 100 {
		p := pending("o", int64(i), 1)
		p.Shard = i % 4
		all = append(all, p)
	}
	for round := range int64(3) {
		pipelinetest.Must(t, x.Client().ScriptFlush(t.Context()).Err())
		for i, p := range all {
			all[i] = moved(p, round*1000+int64(i), round+1)
		}
		put(t, x, all...)
		pipelinetest.Must(t, x.Client().ScriptFlush(t.Context()).Err())
		for i, s := range standings(t, x, all...) {
			diff(t, "standing", s, both(all[i]))
		}
	}
}

// A claim in one pipeline with an unknown ack has returned the entries that the ack was to remove.
func TestClaimRunsAgainAfterALostAck(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	a, b := pending("o", 1, 1), pending("o", 2, 1)
	put(t, x, a, b)
	pipelinetest.Must(t, x.Client().ScriptFlush(t.Context()).Err())
	claim(t, x, 9, 1) // the claim's script is known again, the ack's is not
	diff(t, "next claim", claim(t, x, 9, 9, entries(a)...).Entries, entries(b))
}

func TestKilledServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	a := pending("o", 10, 1)
	put(t, x, a)
	in := wakes(t, x, 2)
	token, err := x.BeginRebuild(t.Context(), 0)
	pipelinetest.Must(t, err)
	ok, err := x.EndRebuild(t.Context(), 0, token)
	pipelinetest.Must(t, err)
	diff(t, "marked", ok, true)
	before, err := x.Identity(t.Context())
	pipelinetest.Must(t, err)
	same, err := x.Identity(t.Context())
	pipelinetest.Must(t, err)
	if before == "" || same != before {
		t.Errorf("identity %q, then %q", before, same)
	}

	pipelinetest.Must(t, server.Kill())
	_, claimErr := x.Claim(t.Context(), 0, 1, base, 0, 9, nil)
	for what, err := range map[string]error{
		"put": x.Put(t.Context(), []task.Task{a}), "ping": x.Ping(t.Context()), "claim": claimErr,
	} {
		if !index.Away(err) || index.IsRefused(err) || index.IsOOM(err) {
			t.Errorf("%s of a dead server: %v, want it to be away", what, err)
		}
	}

	pipelinetest.Must(t, server.Start())
	eventually(t, "put", func(ctx context.Context) bool { return x.Put(ctx, []task.Task{a}) == nil })
	diff(t, "claim", claim(t, x, 10, 9), protocol.Claim{Entries: entries(a)}) // not Marked, because the memory was lost
	marked, err := x.Marked(t.Context(), 1)
	pipelinetest.Must(t, err)
	diff(t, "marked", marked, []bool{false})
	after, err := x.Identity(t.Context())
	pipelinetest.Must(t, err)
	if after == before {
		t.Error("the identity did not tell the restart")
	}
	subscribed(t, x, 1, in) // the subscription came back by itself
	eventually(t, "a second since the start", func(ctx context.Context) bool {
		up, err := x.Uptime(ctx)
		return err == nil && up >= time.Second && up < time.Hour
	})
}

func TestPutOfManyShardsFailsAsAWhole(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	a, b := pending("o", 1, 1), pending("o", 1, 1)
	b.Shard = 1
	pipelinetest.Must(t, x.Client().Set(t.Context(), x.Key(1, "due"), "not a sorted set", 0).Err())
	err := x.Put(t.Context(), []task.Task{a, b})
	if err == nil || !strings.Contains(err.Error(), "put in shard 1") || index.Away(err) {
		t.Errorf("put: %v, want shard 1's failure", err)
	}
	diff(t, "the other shard took its part", standings(t, x, a), []protocol.Standing{both(a)})
}

// A server accepts connections and never answers. A call must end with its context, and with the client's own timeout.
func TestFrozenServerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	x := open(t, index.Config{Addrs: []string{listener.Addr().String()}, ReadTimeout: 100 * time.Millisecond})
	for name, bound := range map[string]time.Duration{"by its context": 20 * time.Millisecond, "by the client": limit} {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		start := time.Now()
		err := x.Put(ctx, []task.Task{pending("o", 1, 1)})
		cancel()
		if took := time.Since(start); !index.Away(err) || took > limit/2 {
			t.Errorf("bound %s: %v after %v", name, err, took)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t, "--requirepass", "right")
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "right"})
	t.Cleanup(func() { _ = admin.Close() })
	pipelinetest.Must(t, admin.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">right", "~*", "+get", "+ping").Err())
	for name, cfg := range map[string]index.Config{
		"no password":    {},
		"wrong password": {Password: "wrong"},
		"wrong user":     {Username: "nobody", Password: "right"},
		"no right":       {Username: "reader", Password: "right"},
	} {
		cfg.Addrs = []string{server.Addr()}
		x := open(t, cfg)
		if err := x.Put(t.Context(), []task.Task{pending("o", 1, 1)}); !index.IsRefused(err) || index.Away(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	x := open(t, index.Config{Addrs: []string{server.Addr()}, Password: "right"})
	put(t, x, pending("o", 1, 1))
}

func TestCheckPolicyWarns(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	for policy, warns := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		pipelinetest.Must(t, x.Client().ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		warning, err := x.CheckPolicy(t.Context())
		pipelinetest.Must(t, err)
		if (warning != "") != warns || warns && !strings.Contains(warning, policy) {
			t.Errorf("policy %s: warning %q", policy, warning)
		}
	}
}

// A server whose snapshots fail refuses all writes until a snapshot succeeds.
func TestServerWhoseSnapshotsFailIsAway(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnRedis(t, "--enable-protected-configs", "yes", "--save", "3600 1")
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	a := pending("o", 1, 1)
	put(t, x, a)
	gone, err := os.MkdirTemp(t.TempDir(), "gone")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, x.Client().ConfigSet(t.Context(), "dir", gone).Err())
	pipelinetest.Must(t, os.Remove(gone))
	pipelinetest.Must(t, x.Client().BgSave(t.Context()).Err())
	eventually(t, "a refused put", func(ctx context.Context) bool {
		err = x.Put(ctx, []task.Task{moved(a, 2, 2)})
		return err != nil
	})
	if !index.Away(err) || index.IsRefused(err) || !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("put: %v, want MISCONF, and the server to be away", err)
	}
}

func TestErrorsAreTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory": true,
		"CLUSTERDOWN The cluster is down":                true,
		"READONLY You can't write against a read only":   true,
		"MISCONF Redis is configured to save snapshots":  true,
		"TRYAGAIN Multiple keys request during rehash":   true,
		"ERR max number of clients reached":              true,
		"ERR unknown command":                            false,
		"WRONGTYPE Operation against a key":              false,
	} {
		if got := index.Away(fmt.Errorf("wrapped: %w", redisError(text))); got != want {
			t.Errorf("Away(%s) = %v, want %v", text, got, want)
		}
	}
	if index.Away(nil) || index.IsRefused(nil) || index.IsOOM(nil) || index.Away(context.Canceled) {
		t.Error("no failure was taken for one")
	}
	if !index.Away(context.DeadlineExceeded) {
		t.Error("a deadline that passed while waiting does not count as away")
	}
}

// redisError is an error of the server.
type redisError string

func (e redisError) Error() string { return string(e) }

// RedisError marks it for the client library.
func (redisError) RedisError() {}
