package pipelinetest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Name is an address that leads to one server, and later to another, as a name in DNS does: whoever is connected stays where
// he is.
type Name struct {
	listener net.Listener

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool // open, on both sides; nil once the test has ended
	pumps sync.WaitGroup
}

// OwnName makes a name that leads to the server at the address, for this test alone.
func OwnName(t testing.TB, to string) *Name {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the test
	Must(t, err)
	n := &Name{listener: listener, to: to, conns: map[net.Conn]bool{}}
	n.pumps.Go(n.accept)
	t.Cleanup(n.close)
	return n
}

// Addr returns where clients connect.
func (n *Name) Addr() string { return n.listener.Addr().String() }

// Point has the name lead new connections to another server.
func (n *Name) Point(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = to
}

func (n *Name) accept() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		to := n.to
		n.mu.Unlock()
		server, err := net.Dial("tcp", to) //nolint:noctx // of this machine
		if err != nil || !n.keep(client, server) {
			_ = client.Close()
			continue
		}
		n.pumps.Go(func() { n.pump(client, server) })
		n.pumps.Go(func() { n.pump(server, client) })
	}
}

func (n *Name) keep(conns ...net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		if n.conns == nil {
			_ = c.Close()
			continue
		}
		n.conns[c] = true
	}
	return n.conns != nil
}

// pump passes on what comes from one side, and closes both at its end.
func (n *Name) pump(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range []net.Conn{from, to} {
		_ = c.Close()
		delete(n.conns, c)
	}
}

func (n *Name) close() {
	_ = n.listener.Close()
	n.mu.Lock()
	for c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
	n.mu.Unlock()
	n.pumps.Wait()
}
