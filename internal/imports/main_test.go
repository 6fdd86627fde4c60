package imports

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// server returns a client of the shared Redis, and a key of the test's own.
func server(t *testing.T) (*redis.Client, string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: pipelinetest.Redis(t).Addr(), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	return client, pipelinetest.Namespace(t)
}
