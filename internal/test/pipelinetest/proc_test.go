package pipelinetest_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const probe = "./internal/test/pipelinetest/testdata/probe"

// startProbe runs a process that starts a redis-server through this package, and returns what it printed: the
// server's address, its run folder, its environment and arguments.
func startProbe(t *testing.T) (*pipelinetest.Proc, []string) {
	t.Helper()
	p := pipelinetest.Run(t, pipelinetest.Build(t, probe), []string{"DUETIME_PROBE=here"}, "--flag", "value")
	p.WaitReady(t)
	return p, strings.Split(strings.TrimSpace(p.Stdout()), "\n")
}

func TestProc(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	p, printed := startProbe(t)
	if diff := cmp.Diff("here [--flag value]", printed[2]); diff != "" {
		t.Errorf("environment and arguments (-want +got):\n%s", diff)
	}
	pipelinetest.Must(t, p.Freeze())
	pipelinetest.Must(t, p.Term())
	if !p.Running() {
		t.Error("a frozen process took a signal")
	}
	pipelinetest.Must(t, p.Thaw())
	if got := p.Wait(t, time.Minute); got != 7 {
		t.Errorf("got exit code %d, want 7", got)
	}
	if got := p.Lines(); len(got) != 1 || !strings.Contains(got[0], `"msg":"ready"`) {
		t.Errorf("got log %q, want one line", got)
	}
}

func TestNothingOutlivesAKilledTestProcess(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	p, printed := startProbe(t)
	addr, folder := printed[0], printed[1]
	pipelinetest.Must(t, p.Kill())
	if got := p.Wait(t, time.Minute); got != -1 {
		t.Errorf("got exit code %d, want -1", got)
	}
	pipelinetest.Await(t, "the killed process's server to end", func() bool { return !listens(addr) })
	startProbe(t)
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the killed process's folder is still there after another run: %v", err)
	}
}

func TestProcessesSideBySide(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	seen := map[string]bool{}
	for range 5 {
		_, printed := startProbe(t)
		if seen[printed[0]] || seen[printed[1]] {
			t.Errorf("two processes share %q", printed)
		}
		seen[printed[0]], seen[printed[1]] = true, true
	}
}

func listens(addr string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
