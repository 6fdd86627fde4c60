package pipelinetest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Counter stands between clients and a server, passes everything on, and counts the connections.
type Counter struct {
	addr     string
	upstream string
	accepted atomic.Int64
}

// Count starts a counter in front of upstream ("host:port") that is gone after the test.
func Count(t testing.TB, upstream string) *Counter {
	t.Helper()
	front, err := reservePort()
	Must(t, err)
	t.Cleanup(func() { releasePorts([]*portLock{front}) })
	return countAt(t, front.addr(), upstream)
}

func countAt(t testing.TB, addr, upstream string) *Counter {
	t.Helper()
	c := &Counter{addr: addr, upstream: upstream}
	acceptAt(t, addr, func(client net.Conn) { c.accepted.Add(1); c.pass(client) })
	return c
}

// acceptAt calls link for each client that connects to addr. After the test no more are accepted, and all links must end.
func acceptAt(t testing.TB, addr string, link func(client net.Conn)) {
	t.Helper()
	listener, err := net.Listen("tcp", addr) //nolint:noctx // ends at once
	Must(t, err)
	var links sync.WaitGroup
	links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			links.Go(func() { link(client) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); links.Wait() })
}

// pass copies both ways until either side has ended.
func (c *Counter) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.upstream) //nolint:noctx // a server of the test's own
	if err != nil {
		return
	}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		ways.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = client.Close(), server.Close()
		})
	}
	ways.Wait()
}

// Addr returns where clients connect instead of to the server.
func (c *Counter) Addr() string { return c.addr }

// Connections tells how many clients have connected so far.
func (c *Counter) Connections() int { return int(c.accepted.Load()) }
