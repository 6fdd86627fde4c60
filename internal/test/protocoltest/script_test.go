package protocoltest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
)

var update = flag.Bool("update", false, "rewrite the outcomes of the scripts in testdata")

// TestRaces plays each script of testdata and compares what happened with the outcomes that the script has. No script takes a
// second of the real clock: its time is that of a synctest bubble, also for SQLite.
func TestRaces(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	pipelinetest.Must(t, err)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(path)
			pipelinetest.Must(t, err)
			memory := worldtest.Memory(t) // outside of the bubble, whose time would wait for its connections
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, memory, string(want)) })
			if *update {
				pipelinetest.Must(t, os.WriteFile(path, []byte(got), 0o600))
				return
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("%s (-script +played):\n%s", path, d)
			}
		})
	}
}

// play runs a script and returns it with what happened. A line that is neither empty, nor a comment, nor indented is a verb with
// its arguments; the indented lines behind it are its outcome.
func play(t *testing.T, memory *worldtest.MemoryRedis, script string) string {
	t.Helper()
	shards := 1
	if strings.Contains(script, "\nshards 2\n") {
		shards = 2
	}
	s := newScene(t, memory, shards)
	var played strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		played.WriteString(line)
		if verb := strings.TrimSpace(line); verb != "" && !strings.HasPrefix(verb, "#") {
			for _, said := range sorted(s.do(verb)) {
				played.WriteString("  " + said + "\n")
			}
		}
	}
	return played.String()
}

// sorted puts in order what calls to Kafka say that are made side by side.
func sorted(said []string) []string {
	isCall := func(text string) bool {
		return strings.HasPrefix(text, "published ") || strings.HasPrefix(text, "refused ")
	}
	for from := 0; from < len(said); from++ {
		to := from
		for to < len(said) && isCall(said[to]) {
			to++
		}
		slices.Sort(said[from:to])
		from = max(from, to-1)
	}
	return said
}

// do runs one verb and returns its outcome. Verbs that run within others say what happened indented.
func (s *scene) do(line string) []string {
	outer := s.swap(nil)
	words := strings.Fields(line)
	verb, known := verbs[words[0]]
	if !known {
		s.t.Fatalf("unknown verb: %s", line)
	}
	func() {
		defer func() {
			if trouble := recover(); trouble != nil {
				s.t.Fatalf("%s: %v", line, trouble)
			}
		}()
		verb(s, words[1:])
	}()
	return s.swap(outer)
}

// swap replaces what was said, and returns it. Calls to Kafka that outlast their pass may be speaking.
func (s *scene) swap(said []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.said
	s.said = said
	return was
}

func (s *scene) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}
