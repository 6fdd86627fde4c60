package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// readyLimit is generous: two JVMs that start beside a race-enabled build on two cores take their time.
	readyLimit = 2 * time.Minute
	stopLimit  = 30 * time.Second
	tailLines  = 25
)

// recipe is what tells one kind of server from another.
type recipe struct {
	name  string
	ports int // how many; the first is the one clients use
	// fill makes the data folder of a first start.
	fill func(data string, ports []*portLock) error
	// command is the program and its arguments.
	command func(data string, ports []*portLock) (*exec.Cmd, error)
	// ready answers nil once the server at addr takes requests.
	ready func(ctx context.Context, addr string) error
}

// Server is a real server that this process started. Its address and its data stay the same over any number of
// stops and starts. Methods may be called from several goroutines; they run one after the other.
type Server struct {
	recipe recipe
	dir    string
	ports  []*portLock
	lent   bool // by the run: it always runs

	mu    sync.Mutex
	proc  *process
	clock *Clock // nil: the machine's
}

// startServer makes a server with its data under dir and waits until it is ready. It tries other ports where a
// program outside our reservations took one.
func startServer(dir string, r recipe) (*Server, error) {
	var err error
	for range 3 {
		var s *Server
		if s, err = newServer(dir, r); err != nil {
			return nil, err
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
		s.discard()
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// newServer reserves the ports and makes the data folder, and starts nothing. An empty dir is one of the run's own.
func newServer(dir string, r recipe) (*Server, error) {
	if dir == "" {
		base, err := runFolder()
		if err != nil {
			return nil, err
		}
		if dir, err = os.MkdirTemp(base, r.name+"-"); err != nil {
			return nil, fmt.Errorf("make a folder for %s: %w", r.name, err)
		}
	}
	ports, err := reservePorts(r.ports)
	if err != nil {
		return nil, err
	}
	s := &Server{recipe: r, dir: dir, ports: ports}
	if err := s.refill(); err != nil {
		releasePorts(ports)
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// refill leaves the data as for a first start. The data folder itself stays: it may be a disk of its own.
func (s *Server) refill() error {
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return fmt.Errorf("make the data folder of %s: %w", s.recipe.name, err)
	}
	if err := empty(s.data()); err != nil {
		return fmt.Errorf("wipe %s: %w", s.recipe.name, err)
	}
	if s.recipe.fill == nil {
		return nil
	}
	if err := s.recipe.fill(s.data(), s.ports); err != nil {
		return fmt.Errorf("fill the data folder of %s: %w", s.recipe.name, err)
	}
	return nil
}

// Addr returns where clients connect, "127.0.0.1:port".
func (s *Server) Addr() string { return s.ports[0].addr() }

// Log returns the path of the file with everything that the server printed, over all its starts.
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

// Running says whether the server's process lives, frozen or not.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

func (s *Server) running() bool { return s.lent || s.proc != nil && !s.proc.exited() }

// Start starts a stopped server on its port and data, and returns once it answers. A running one is left alone.
// The error holds the end of the server's log.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

func (s *Server) start() error {
	if s.running() {
		return nil
	}
	proc, err := s.spawn()
	if err != nil {
		return err
	}
	s.proc = proc
	err = s.awaitReady()
	if s.clock != nil {
		s.clock.tidy(proc.cmd.Process.Pid)
	}
	if err != nil {
		tail := logTail(s.Log())
		err = errors.Join(fmt.Errorf("start %s at %s: %w", s.recipe.name, s.Addr(), err), proc.kill())
		if slices.ContainsFunc([]string{"in use", "BindException"}, func(s string) bool { return strings.Contains(tail, s) }) {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return fmt.Errorf("%w\n%s", err, tail)
	}
	return nil
}

// spawn starts the server's process with its output going to the log.
func (s *Server) spawn() (*process, error) {
	cmd, err := s.recipe.command(s.data(), s.ports)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", s.recipe.name, err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.dir
	if s.clock != nil {
		cmd.Env = append(cmd.Environ(), s.clock.env()...)
	}
	return launch(cmd)
}

// awaitReady polls until the server answers; it gives up when the process has ended.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := s.recipe.ready(attempt, s.Addr())
		done()
		switch {
		case s.proc.exited():
			return fmt.Errorf("it ended at once: %s", s.proc.cmd.ProcessState)
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("not ready after %s: %w", readyLimit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Stop ends the server in its own orderly way (SIGTERM) and waits for it.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent {
		return errLent
	}
	if s.proc == nil {
		return nil
	}
	return s.proc.terminate(stopLimit)
}

// Kill ends the server at once (SIGKILL) and waits until it is gone.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if s.lent {
		return errLent
	}
	if s.proc == nil {
		return nil
	}
	return s.proc.kill()
}

// Restart is Stop and Start: same port, same data.
func (s *Server) Restart() error { return errors.Join(s.Stop(), s.Start()) }

// Wipe kills the server, throws its data away and starts it empty on the same port.
func (s *Server) Wipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if err := s.refill(); err != nil {
		return err
	}
	return s.start()
}

// Freeze stops the server's process (SIGSTOP): connections stay open and nothing answers until Thaw.
func (s *Server) Freeze() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent {
		return errLent
	}
	if !s.running() {
		return fmt.Errorf("freeze %s: it does not run", s.recipe.name)
	}
	return s.proc.freeze()
}

// Thaw lets a frozen server go on (SIGCONT).
func (s *Server) Thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent {
		return errLent
	}
	if !s.running() {
		return fmt.Errorf("thaw %s: it does not run", s.recipe.name)
	}
	return s.proc.thaw()
}

// discard kills the server, removes its folder and gives the ports back.
func (s *Server) discard() {
	_ = s.Kill()
	_ = os.RemoveAll(s.dir)
	releasePorts(s.ports)
}

// logTail returns the last lines of a file, for error texts.
func logTail(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a log that this package opened
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// program finds an installed server, also in the folders that only root has in its PATH.
func program(name string) (string, error) {
	for _, try := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(try); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: run ./scripts/test", name)
}
