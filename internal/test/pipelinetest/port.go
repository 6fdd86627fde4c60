package pipelinetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

const (
	// The range lies below what Linux hands out for outgoing connections (from 32768): a port from there could be
	// taken by anybody's dial while its server is down, even by a client dialling it, which TCP then connects to itself.
	lowPort  = 10240
	highPort = 32000
)

// Address reserves an address on loopback until the test's end, for a server of the test's own that ends and comes back. Nobody
// listens there, and no outgoing connection takes it.
func Address(t testing.TB) string {
	t.Helper()
	p, err := reservePort()
	Must(t, err)
	t.Cleanup(func() { releasePorts([]*portLock{p}) })
	return p.addr()
}

// errPortTaken says that a program which is not ours sits on the port.
var errPortTaken = errors.New("port taken")

// portLock is a port that is this process's until it ends or lets go, whether or not something listens on it.
type portLock struct {
	port int
	file *os.File
}

// reservePort finds a port that nobody uses and no other test process has reserved.
func reservePort() (*portLock, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("duetime-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of port locks: %w", err)
	}
	for range 1000 {
		port := lowPort + rand.IntN(highPort-lowPort) //nolint:gosec // not a secret
		f, err := lockFile(filepath.Join(dir, strconv.Itoa(port)), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue
		}
		if portFree(port) {
			return &portLock{port: port, file: f}, nil
		}
		unlock(f)
	}
	return nil, errors.New("no free port found in a thousand tries")
}

// reservePorts reserves n ports or none.
func reservePorts(n int) ([]*portLock, error) {
	var ports []*portLock
	for range n {
		p, err := reservePort()
		if err != nil {
			releasePorts(ports)
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func releasePorts(ports []*portLock) {
	for _, p := range ports {
		unlock(p.file)
	}
}

func (p *portLock) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// tryPidfd lets Go find out whether the kernel has pidfds, which it does once, before it first handles a process: with a
// child that it makes without ForkLock.
var tryPidfd = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release() // nothing was asked of it
	}
})

// portFree leaves nothing behind that listens: a child process that is being made meanwhile would have a copy of the
// listener until it runs its own program, so that none may be made.
func portFree(port int) bool {
	tryPidfd()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // ends at once
	if err != nil {
		return false
	}
	return l.Close() == nil
}
