package worldtest

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// memoryInfo is what the index reads of INFO.
const memoryInfo = "run_id:memory\r\nmaster_replid:memory\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n"

// MemoryRedis is a Redis in memory. It takes the first line of flags from scripts, and answers INFO: miniredis knows neither.
type MemoryRedis struct {
	*miniredis.Miniredis

	failure atomic.Value // string: what every call answers; empty: nothing is wrong
	plain   sync.Map     // texts of scripts without flags, by the hash of the text with them
}

// Memory starts a Redis in memory that is gone after the test.
func Memory(t testing.TB) *MemoryRedis {
	t.Helper()
	m := &MemoryRedis{Miniredis: miniredis.RunT(t)}
	m.SetError("")
	m.Server().SetPreHook(m.answer)
	return m
}

// SetError makes every call fail; an empty text ends that.
func (m *MemoryRedis) SetError(text string) { m.failure.Store(text) }

// answer answers a call that miniredis can't; false leaves the call to it.
func (m *MemoryRedis) answer(c *server.Peer, cmd string, args ...string) bool {
	if failure, _ := m.failure.Load().(string); failure != "" {
		c.WriteError(failure)
		return true
	}
	switch {
	case cmd == "INFO":
		c.WriteBulk(memoryInfo)
		return true
	case cmd == "EVAL" && strings.HasPrefix(args[0], "#!"):
		sum := sha1.Sum([]byte(args[0])) //nolint:gosec // likewise
		_, text, _ := strings.Cut(args[0], "\n")
		m.plain.Store(hex.EncodeToString(sum[:]), text)
		m.Server().Dispatch(c, append([]string{"EVAL", text}, args[1:]...))
		return true
	case cmd == "EVALSHA":
		text, known := m.plain.Load(args[0])
		if known {
			m.Server().Dispatch(c, append([]string{"EVAL", text.(string)}, args[1:]...)) //nolint:forcetypeassert // as it was stored
		}
		return known
	}
	return false
}
