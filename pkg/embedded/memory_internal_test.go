package embedded

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// Other users of the machine reach the port of the index in memory, and nothing behind it.
func TestIndexInMemoryIsLocked(t *testing.T) {
	t.Parallel()
	p, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "duetime.db"), Config{})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, p.Close(t.Context())) }()
	stranger := redis.NewClient(&redis.Options{Addr: p.memory.Addr()})
	defer func() { _ = stranger.Close() }()
	for _, command := range [][]any{{"KEYS", "*"}, {"FLUSHALL"}, {"SET", "a", "b"}} {
		if err := stranger.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("%v: %v, want NOAUTH", command, err)
		}
	}
}
