package contract_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// ahead is by how many ms the clock of this machine, and so of the implementations, is ahead of MySQL's: one that asks its
// own clock acts too early.
const ahead = hour / 2

// python is Debian's, for which scripts/install installs the driver of MySQL.
const python = "/usr/bin/python3"

// TestContract runs all checks against each implementation, and against one that the environment names. Each broken variant
// must fail in its checks and in no other.
func TestContract(t *testing.T) {
	t.Parallel()
	server := serverBehind(t)
	implementations := map[string][]string{
		"library": {pipelinetest.Build(t, "./internal/test/contract/library")},
		"python":  adapterOf(folder(t)),
	}
	t.Run("together", func(t *testing.T) {
		t.Parallel()
		newTogether(t, server, implementations).run()
	})
	if command := os.Getenv("DUETIME_CONTRACT"); command != "" {
		implementations[command] = strings.Fields(command)
	}
	for name, command := range implementations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t, server, command...)
			if failed := s.judge(); len(failed) > 0 {
				t.Errorf("%d of %d checks found faults:\n%s", len(failed), len(checks), s.story())
			}
		})
	}
	for _, v := range variants {
		t.Run("broken: "+v.name, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t, server, adapterOf(v.make(t))...)
			failed := s.judge()
			if diff := cmp.Diff(v.fails, failed); diff != "" {
				t.Errorf("checks that found faults (-want +got):\n%s\n%s", diff, s.story())
			}
		})
	}
}

// serverBehind starts a MySQL whose clock is behind this machine's.
func serverBehind(t *testing.T) *pipelinetest.MySQLServer {
	t.Helper()
	server, clock := pipelinetest.OwnMySQL(t), pipelinetest.NewClock(t)
	clock.Shift(-ahead * time.Millisecond)
	pipelinetest.Must(t, server.Kill())
	server.UseClock(clock)
	pipelinetest.Must(t, server.Start())
	return server
}

// folder is where the implementation in Python is.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../examples/python")
	pipelinetest.Must(t, err)
	return dir
}

// adapterOf starts the adapter with the implementation of a folder.
func adapterOf(dir string) []string { return []string{python, "-B", "adapter.py", dir} }
