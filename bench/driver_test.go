package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// callLimit is beyond what the slowest request takes: a hundred thousand jobs in bulk, or 20 s of paced ones.
const callLimit = 5 * time.Minute

// driver is a process that runs one system.
type driver struct {
	role string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once the process is reaped

	mu  sync.Mutex
	in  *os.File
	out *os.File
	dec *json.Decoder
}

// buildDriver compiles the driver as a release is built.
func buildDriver(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "driver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./driver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the driver: %v\n%s", err, out)
	}
	return path
}

// startDriver runs a command that speaks the protocol and waits until its system is open. It is killed after the test.
func startDriver(t testing.TB, role, log string, env []string, command ...string) *driver {
	t.Helper()
	d, err := launchDriver(role, log, env, command)
	pipelinetest.Must(t, err)
	t.Cleanup(func() {
		if os.Getenv("BENCH_PROFILE") != "" && !d.ended() {
			d.stop(t) // it writes its profile
		}
		d.kill()
		if t.Failed() {
			t.Logf("log of the driver that is to %s:\n%s", role, tail(log))
		}
	})
	if _, err := d.answer(); err != nil {
		t.Fatalf("open: %v", err)
	}
	return d
}

func launchDriver(role, log string, env, command []string) (*driver, error) {
	d := &driver{role: role, log: log, done: make(chan struct{})}
	ours, theirs, err := pipes(d)
	if err != nil {
		return nil, err
	}
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("open the driver's log: %w", err)
	}
	d.cmd = exec.Command(command[0], command[1:]...) //nolint:noctx // it ends with the test
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = theirs[0], theirs[1], file
	d.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DUETIME_") }), env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	d.in, d.out, d.dec = ours[0], ours[1], json.NewDecoder(ours[1])
	started := make(chan error, 1)
	go d.run(started, append(theirs, file))
	return d, <-started
}

// pipes returns our ends and the driver's of its standard input and output.
func pipes(d *driver) (ours, theirs []*os.File, err error) {
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe to the driver that is to %s: %w", d.role, err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe from the driver that is to %s: %w", d.role, err)
	}
	return []*os.File{ourIn, ourOut}, []*os.File{theirIn, theirOut}, nil
}

// run starts the process and reaps it on one OS thread: the kernel kills it when the thread that started it ends.
func (d *driver) run(started chan<- error, theirs []*os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.done)
	err := d.cmd.Start()
	for _, f := range theirs {
		_ = f.Close()
	}
	started <- err
	if err == nil {
		_ = d.cmd.Wait()
	}
}

// call asks and waits for the answer.
func (d *driver) call(r protocol.Request) (protocol.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return protocol.Response{}, fmt.Errorf("ask to %s: %w", r.Op, err)
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return protocol.Response{}, fmt.Errorf("ask to %s: %w", r.Op, err)
	}
	answer, err := d.answer()
	if err != nil {
		return answer, fmt.Errorf("%s: %w", r.Op, err)
	}
	return answer, nil
}

func (d *driver) answer() (protocol.Response, error) {
	var r protocol.Response
	if err := d.out.SetReadDeadline(time.Now().Add(callLimit)); err != nil {
		return r, fmt.Errorf("set a deadline: %w", err)
	}
	if err := d.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("no answer: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// must is call for what has to succeed.
func (d *driver) must(t testing.TB, r protocol.Request) protocol.Response {
	t.Helper()
	answer, err := d.call(r)
	pipelinetest.Must(t, err)
	return answer
}

// stop lets the process finish what it does.
func (d *driver) stop(t testing.TB) {
	t.Helper()
	d.must(t, protocol.Request{Op: "stop"})
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		t.Errorf("the driver that is to %s still runs a minute after its stop", d.role)
	}
	d.kill()
}

func (d *driver) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once, kill -9, and waits until it is gone.
func (d *driver) kill() {
	if !d.ended() { // its number may be another's by then
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.done
	}
	_, _ = d.in.Close(), d.out.Close()
}

// cpu is the processor time that a process has used.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	pipelinetest.Must(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, in ticks of 10 ms
		n, err := strconv.ParseInt(field, 10, 64)
		pipelinetest.Must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// tail is the end of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
