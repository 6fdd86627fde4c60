package pipelinetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	buildMu sync.Mutex
	built   = map[string]string{} // package path -> binary
)

// Build compiles a command of this module, for example "./cmd/event", once per test process, and returns the binary's
// path. It builds as a release does: without cgo and without the race detector. The flags are further ones of go build.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	needServers(t)
	buildMu.Lock()
	defer buildMu.Unlock()
	key := strings.Join(append(flags, pkg), " ")
	if path, ok := built[key]; ok {
		return path
	}
	base, err := binFolder(flags)
	Must(t, err)
	path := filepath.Join(base, strings.NewReplacer("/", "-", " ", "_").Replace(strings.TrimPrefix(key, "./")))
	guard, err := lockFile(path+".lock", syscall.LOCK_EX)
	Must(t, err)
	defer unlock(guard)
	if _, err := os.Stat(path); err != nil { // another process of the run has not built it
		Must(t, build(path, pkg, flags))
	}
	built[key] = path
	return path
}

// build compiles a command, which stands at path only when it is whole.
func build(path, pkg string, flags []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", path + ".new"}, flags...), pkg)...) //nolint:gosec,noctx // builds our own packages
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return os.Rename(path+".new", path)
}

// binFolder is where commands are built: the run's, or else this process's. Flags may name files of this process.
func binFolder(flags []string) (string, error) {
	if dir := os.Getenv(lentBin); dir != "" && len(flags) == 0 {
		return dir, nil
	}
	return runFolder()
}

// Proc is one of our binaries running as a process of its own.
type Proc struct {
	proc     *process
	out, err string // files that hold what it printed
}

// Run starts a binary with env ("NAME=value") and args, in an empty working folder. It inherits the environment but
// none of its DUETIME_ names. The process is killed after the test, and the end of its log shown if the test failed.
func Run(t testing.TB, binary string, env []string, args ...string) *Proc {
	t.Helper()
	needServers(t)
	base, err := runFolder()
	Must(t, err)
	dir, err := os.MkdirTemp(base, "proc-")
	Must(t, err)
	p := &Proc{out: filepath.Join(dir, "stdout"), err: filepath.Join(dir, "stderr")}
	cmd := exec.Command(binary, args...) //nolint:gosec,noctx // a test's own binary, ended by kill
	cmd.Dir, cmd.Env = dir, append(cleanEnv(), env...)
	p.proc, err = p.launch(cmd)
	Must(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(binary), logTail(p.err))
		}
		_ = os.RemoveAll(dir)
	})
	return p
}

// launch starts cmd with its output going to the two files.
func (p *Proc) launch(cmd *exec.Cmd) (*process, error) {
	stdout, err := os.Create(p.out)
	if err != nil {
		return nil, fmt.Errorf("open the output: %w", err)
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := os.Create(p.err)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = stderr.Close() }()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return launch(cmd)
}

// cleanEnv is this process's environment without what would configure duetime.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DUETIME_") })
}

// Pid returns the process id.
func (p *Proc) Pid() int { return p.proc.cmd.Process.Pid }

// Log returns the path of the file that takes the process's stderr.
func (p *Proc) Log() string { return p.err }

// Lines returns the whole lines that the process has logged so far.
func (p *Proc) Lines() []string { return wholeLines(p.err) }

// Stdout returns what the process has written to its stdout so far.
func (p *Proc) Stdout() string {
	text, err := os.ReadFile(p.out)
	if err != nil {
		return ""
	}
	return string(text)
}

func wholeLines(path string) []string {
	text, err := os.ReadFile(path) //nolint:gosec // a log that this package opened
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(string(text[:end]), "\n")
}

// WaitReady waits for the log line whose message is "ready" and fails the test when the process ends before.
func (p *Proc) WaitReady(t testing.TB) {
	t.Helper()
	p.WaitLine(t, `"msg":"ready"`)
}

// WaitLine waits for a log line that contains text and returns it. It fails the test when the process ends before, or
// after two minutes.
func (p *Proc) WaitLine(t testing.TB, text string) string {
	t.Helper()
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(5 * time.Millisecond) {
		ended := p.proc.exited() // read before the log, which then holds all there will be
		for _, line := range p.Lines() {
			if strings.Contains(line, text) {
				return line
			}
		}
		if ended {
			t.Fatalf("%s ended (%s) without the line %s", p.proc.cmd.Path, p.proc.cmd.ProcessState, text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not logged %s", p.proc.cmd.Path, text)
		}
	}
}

// Running says whether the process lives, frozen or not.
func (p *Proc) Running() bool { return !p.proc.exited() }

// Term sends SIGTERM and does not wait.
func (p *Proc) Term() error { return p.proc.signal(syscall.SIGTERM) }

// Kill ends the process at once (SIGKILL) and waits until it is gone.
func (p *Proc) Kill() error { return p.proc.kill() }

// Freeze stops the process (SIGSTOP) until Thaw.
func (p *Proc) Freeze() error { return p.proc.freeze() }

// Thaw lets a frozen process go on (SIGCONT).
func (p *Proc) Thaw() error { return p.proc.thaw() }

// Wait waits for the process's end and returns its exit code, -1 for one that a signal ended. It fails the test after
// limit.
func (p *Proc) Wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	Must(t, p.proc.wait(limit))
	return p.proc.cmd.ProcessState.ExitCode()
}
