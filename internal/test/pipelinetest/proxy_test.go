package pipelinetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestProxy(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	counter := func(addr string) func(time.Duration) (int64, error) {
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		return func(limit time.Duration) (int64, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return client.Incr(ctx, "n").Result()
		}
	}
	through, around := counter(proxy.Addr()), counter(server.Addr())
	want := int64(0)
	expect := func(step string, incr func(time.Duration) (int64, error)) {
		t.Helper()
		want++
		if got, err := incr(time.Minute); err != nil || got != want {
			t.Fatalf("%s: got %d, %v, want %d", step, got, err, want)
		}
	}
	lost := func(step string, carriedOut int64) {
		t.Helper()
		if _, err := through(2 * time.Second); err == nil {
			t.Fatalf("%s: an answer came through", step)
		}
		want += carriedOut
		expect(step, around)
		proxy.Heal()
		expect(step+" healed", through)
	}
	expect("at first", through)
	proxy.Cut()
	lost("cut", 0)
	proxy.CutUpstream()
	lost("cut upstream", 0)
	proxy.CutDownstream()
	lost("cut downstream", 1)
	proxy.Refuse()
	lost("refuse", 0)

	proxy.Latency(100 * time.Millisecond)
	start := time.Now()
	expect("latency", through)
	if got := time.Since(start); got < 100*time.Millisecond {
		t.Errorf("an answer took %s, want at least 100ms", got)
	}
	proxy.Heal()

	proxy.Reset()
	pipelinetest.Await(t, "a new connection after Reset", func() bool { _, err := through(time.Second); return err == nil })
}

func TestKafkaBehindProxy(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	_, proxy := pipelinetest.OwnKafkaBehind(t)
	short := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return roundTrip(ctx, t, proxy.Addr())
	}
	pipelinetest.Must(t, short(time.Minute))
	proxy.Refuse()
	if err := short(time.Second); err == nil {
		t.Error("a message came around the proxy")
	}
	proxy.Heal()
	pipelinetest.Must(t, short(time.Minute))
}

func TestKafkaBehindManyProxies(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	_, proxies := pipelinetest.OwnKafkaBehindMany(t, 3)
	short := func(proxy *pipelinetest.ToxicProxy, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return roundTrip(ctx, t, proxy.Addr())
	}
	for i, cut := range proxies {
		cut.Refuse()
		for j, proxy := range proxies {
			if j != i {
				pipelinetest.Must(t, short(proxy, time.Minute))
			} else if err := short(proxy, time.Second); err == nil {
				t.Errorf("a message came around proxy %d", i)
			}
		}
		cut.Heal()
		pipelinetest.Must(t, short(cut, time.Minute))
	}
}

func TestSharedServers(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	if a, b := pipelinetest.Redis(t), pipelinetest.Redis(t); a != b {
		t.Error("two callers got two servers")
	}
	m := pipelinetest.MySQL(t)
	if a, b := m.NewSchema(t), m.NewSchema(t); a == b {
		t.Error("two schemas have one name")
	}
	pipelinetest.Must(t, pipelinetest.Redis(t).Start())
}
