package pipelinetest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestRedisReplica(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	primary := pipelinetest.OwnRedis(t)
	link := pipelinetest.Proxy(t, primary.Addr())
	replica := pipelinetest.OwnRedisReplica(t, link.Addr())
	door := pipelinetest.Proxy(t, primary.Addr())
	client := redis.NewClient(&redis.Options{Addr: door.Addr(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	follower := redis.NewClient(&redis.Options{Addr: replica.Addr(), MaxRetries: -1})
	defer func() { _ = follower.Close() }()
	has := func(want string) bool {
		got, err := follower.Get(t.Context(), "n").Result()
		return err == nil && got == want
	}
	pipelinetest.Must(t, client.Set(t.Context(), "n", "1", 0).Err())
	pipelinetest.Await(t, "a write to be replicated", func() bool { return has("1") })
	if err := follower.Set(t.Context(), "n", "0", 0).Err(); err == nil {
		t.Error("a replica took a write")
	}
	link.Cut()
	pipelinetest.Must(t, client.Set(t.Context(), "n", "2", 0).Err())
	pipelinetest.Must(t, replica.Promote())
	pipelinetest.Must(t, primary.Kill())
	door.Redirect(replica.Addr())
	link.Heal()
	pipelinetest.Await(t, "the promoted replica to answer", func() bool {
		got, err := client.Get(t.Context(), "n").Result()
		if err == nil && got != "1" {
			t.Fatalf("got %s, want the value before the last write", got)
		}
		return err == nil
	})
	pipelinetest.Must(t, client.Set(t.Context(), "n", "3", 0).Err())

	pipelinetest.Must(t, primary.Start())
	pipelinetest.Must(t, replica.Restart())
	pipelinetest.Await(t, "the promoted replica to take writes after a restart", func() bool {
		return client.Set(t.Context(), "n", "4", 0).Err() == nil
	})
}
