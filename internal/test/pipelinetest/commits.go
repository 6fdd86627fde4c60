package pipelinetest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// packetHead is how many bytes MySQL's protocol has before the text of a statement: its length, a number, and what is asked for.
const packetHead = 5

// CommitLoser stands between clients and a database server and loses answers to COMMIT as told. It reads what clients send, so
// their links must not be encrypted.
type CommitLoser struct {
	addr, upstream string
	losing         atomic.Bool
}

// LoseCommits starts a CommitLoser in front of upstream ("host:port") that is gone after the test. Until Lose is called it
// loses nothing.
func LoseCommits(t testing.TB, upstream string) *CommitLoser {
	t.Helper()
	port, err := reservePort()
	Must(t, err)
	t.Cleanup(func() { releasePorts([]*portLock{port}) })
	l := &CommitLoser{addr: port.addr(), upstream: upstream}
	ctx, stop := context.WithCancel(context.Background())
	acceptAt(t, l.addr, func(client net.Conn) { l.link(ctx, client) })
	t.Cleanup(stop) // before acceptAt waits for the links
	return l
}

// Addr returns where clients connect instead of to the server.
func (l *CommitLoser) Addr() string { return l.addr }

// Lose has each COMMIT from now on carried out without an answer: the connection breaks in its place. Lose(false) ends this.
func (l *CommitLoser) Lose(on bool) { l.losing.Store(on) }

func (l *CommitLoser) link(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.upstream)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	var lost atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		pass(server, client, func([]byte) bool { return !lost.Load() })
		_ = client.Close()
	})
	pass(client, server, func(request []byte) bool {
		if l.losing.Load() && len(request) > packetHead && bytes.HasPrefix(request[packetHead:], []byte("COMMIT")) {
			lost.Store(true)
		}
		return true
	})
	_ = server.Close()
	answers.Wait()
}

// pass copies what comes from one end to the other, until an end closes or goesOn says no.
func pass(from, to net.Conn, goesOn func(part []byte) bool) {
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if err != nil || !goesOn(part[:n]) {
			return
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}
