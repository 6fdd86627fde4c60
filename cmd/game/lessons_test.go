package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// A worker that the page kills is started again by what scripts/up left behind, and one that was asked to end is not.
func TestKilledWorkerHasASuccessor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := filepath.Join(root, ".up", "run")
	pipelinetest.Must(t, os.MkdirAll(folder, 0o700))
	pipelinetest.Must(t, os.Mkdir(filepath.Join(root, "scripts"), 0o700))
	script, err := os.ReadFile("../../scripts/up")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, os.WriteFile(filepath.Join(root, "scripts", "up"), script, 0o700))
	keeper := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "up"), "keep", "worker-1", "sleep", "1000")
	var said bytes.Buffer
	keeper.Stdout, keeper.Stderr = &said, &said
	pipelinetest.Must(t, keeper.Start())
	file := filepath.Join(folder, "worker-1.pid")
	pipelinetest.Must(t, os.WriteFile(file, []byte(strconv.Itoa(keeper.Process.Pid)+" "+startOf(t, keeper.Process.Pid)+"\n"), 0o600)) // as scripts/up does

	l, err := newLessons(folder, config.Config{})
	pipelinetest.Must(t, err)
	worker := func() int { return aliveBy(file) }
	pipelinetest.Await(t, "the worker", func() bool { return worker() != 0 && worker() != keeper.Process.Pid })
	first := worker()
	name, err := l.kill(t.Context())
	if name != "worker-1" || err != nil {
		t.Fatalf("killed %q, %v", name, err)
	}
	pipelinetest.Await(t, "a successor", func() bool { return worker() != 0 && worker() != first })
	if all := l.workers(); len(all) != 1 || all[0].Name != "worker-1" || !all[0].Alive {
		t.Errorf("workers %+v", all)
	}
	pipelinetest.Must(t, syscall.Kill(worker(), syscall.SIGTERM))
	_ = keeper.Wait() // it ends with the worker, whose code it has
	if all := l.workers(); len(all) != 1 || all[0].Alive {
		t.Errorf("workers %+v after a SIGTERM: %s", all, said.String())
	}
	if name, err := l.kill(t.Context()); name != "" || err != nil {
		t.Errorf("killed %q, %v, and nobody lives", name, err)
	}
}

// A pid file of an earlier process names nobody, even if another process has its id now.
func TestPidOfAnotherProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "worker-1.pid")
	pid := os.Getpid()
	for text, want := range map[string]int{
		strconv.Itoa(pid) + " " + startOf(t, pid) + "\n": pid,
		strconv.Itoa(pid) + " 1\n":                       0,
		strconv.Itoa(pid):                                0,
		"":                                               0,
		"-1 1":                                           0,
	} {
		pipelinetest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if got := aliveBy(file); got != want {
			t.Errorf("%q: process %d, want %d", text, got, want)
		}
	}
}

func startOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	pipelinetest.Must(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)[19]
}

// Redis is flushed whole.
func TestFlush(t *testing.T) {
	t.Parallel()
	server, err := pipelinetest.StartRedis("")
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, server.Stop()) }()
	cfg := config.Config{}
	cfg.Redis.Mode, cfg.Redis.Addrs = "standalone", []string{server.Addr()}
	l, err := newLessons(t.TempDir(), cfg)
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, l.close(t.Context())) }()
	r := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { pipelinetest.Must(t, r.Close()) }()
	for _, key := range []string{"a", "b"} {
		pipelinetest.Must(t, r.Set(t.Context(), key, 1, 0).Err())
	}
	n, err := l.offered().Flush(t.Context())
	left, countErr := r.DBSize(t.Context()).Result()
	if n != 2 || err != nil || left != 0 || countErr != nil {
		t.Errorf("flushed %d, %v; left %d, %v", n, err, left, countErr)
	}
	if none, err := newLessons("", cfg); err != nil || none.offered().Kill != nil || none.offered().Flush != nil {
		t.Errorf("without a folder: %+v, %v", none, err)
	}
}
