package pipelinetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// errEnded says that there is no program any more.
var errEnded = errors.New("it has ended")

// process is one started program, reaped by the goroutine that started it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the program is reaped
}

// launch starts cmd in a process group of its own, to be killed by the kernel when this process ends.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts the program and waits for its end on one OS thread: the kernel sends the parent-death signal when the
// starting thread ends, not the starting process, so that thread has to live exactly as long as the child.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait() // the exit status is read from ProcessState
}

// exited says whether the program has ended.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends s; a program that has already ended is not an error.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s to %s: %w", s, p.cmd.Path, err)
	}
	return nil
}

// kill ends the program and what it forked, and waits until it is reaped.
func (p *process) kill() error {
	if p.exited() {
		return nil
	}
	// The group first: its id is the child's, which cannot be anyone else's before the child is reaped.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.wait(time.Minute)
}

// terminate asks the program to end and waits; one that is still there after limit is killed and reported.
func (p *process) terminate(limit time.Duration) error {
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	if err := p.wait(limit); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

// wait waits for the program's end.
func (p *process) wait(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s still runs after %s", p.cmd.Path, limit)
	}
}

// freeze stops the program and returns once the kernel shows each of its threads stopped.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitThreads(func(state byte) bool { return state == 'T' })
}

// thaw lets a frozen program go on, which may end at once by a signal that waited for it.
func (p *process) thaw() error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := p.awaitThreads(func(state byte) bool { return state != 'T' }); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// awaitThreads polls the state letters that the kernel shows for the program's threads until all are as wanted.
func (p *process) awaitThreads(want func(state byte) bool) error {
	deadline := time.Now().Add(10 * time.Second)
	for !p.exited() {
		states, err := p.states()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(states, func(state byte) bool { return !want(state) }) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is in states %s after a signal", p.cmd.Path, states)
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("%s: %w", p.cmd.Path, errEnded)
}

// states returns the state letter of each thread.
func (p *process) states() ([]byte, error) {
	threads := fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid)
	entries, err := os.ReadDir(threads)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", p.cmd.Path, errEnded)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of %s: %w", p.cmd.Path, err)
	}
	var states []byte
	for _, entry := range entries {
		stat, err := os.ReadFile(filepath.Join(threads, entry.Name(), "stat")) //nolint:gosec // a file of the kernel's
		if err != nil {
			continue // the thread has ended
		}
		// The letter follows the thread's name, which stands in brackets and may itself hold any.
		states = append(states, stat[bytes.LastIndexByte(stat, ')')+2])
	}
	return states, nil
}
