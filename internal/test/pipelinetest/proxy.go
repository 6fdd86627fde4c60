package pipelinetest

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ToxicProxy stands between clients and one server and misbehaves as told. Faults add up until Heal. Methods end the
// test on an error and may be called from the test's goroutine only.
type ToxicProxy struct {
	t       testing.TB
	addr    string
	running sync.WaitGroup

	mu       sync.Mutex
	upstream string
	listener net.Listener // nil: new connections are refused
	links    map[*proxyLink]bool
	faults   proxyFaults
}

// proxyFaults is what the proxy does to what comes through.
type proxyFaults struct {
	cut     [2]bool // by direction: it is swallowed
	latency time.Duration
	reset   bool
}

// Proxy starts a proxy in front of upstream ("host:port") that is gone after the test. The upstream may be down.
func Proxy(t testing.TB, upstream string) *ToxicProxy {
	t.Helper()
	front, err := reservePort()
	Must(t, err)
	t.Cleanup(func() { releasePorts([]*portLock{front}) })
	return proxyAt(t, front.addr(), upstream)
}

func proxyAt(t testing.TB, addr, upstream string) *ToxicProxy {
	t.Helper()
	p := &ToxicProxy{t: t, addr: addr, upstream: upstream, links: map[*proxyLink]bool{}}
	p.listen()
	t.Cleanup(func() {
		p.Refuse()
		p.running.Wait()
	})
	return p
}

// Addr returns where clients connect instead of to the server.
func (p *ToxicProxy) Addr() string { return p.addr }

// Redirect leads new connections to another server, which may be down, and breaks those to the old one. Faults stay.
func (p *ToxicProxy) Redirect(upstream string) {
	p.t.Helper()
	p.change(func() { p.upstream = upstream })
	p.Reset()
}

// Cut makes the network swallow everything in both directions: connections stay open, new ones are accepted, nothing
// comes through. The end of a connection does: one that its client closes ends at the server too. Heal breaks every
// connection that was open during the cut.
func (p *ToxicProxy) Cut() {
	p.CutUpstream()
	p.CutDownstream()
}

// CutUpstream swallows what clients send: requests are lost, and so never carried out.
func (p *ToxicProxy) CutUpstream() { p.change(func() { p.faults.cut[toServer] = true }) }

// CutDownstream swallows what the server sends: requests are carried out and their answers are lost.
func (p *ToxicProxy) CutDownstream() { p.change(func() { p.faults.cut[toClient] = true }) }

// Latency delays what the server sends.
func (p *ToxicProxy) Latency(d time.Duration) { p.change(func() { p.faults.latency = d }) }

// Reset breaks every open connection, also one that is not accepted yet; new ones are served.
func (p *ToxicProxy) Reset() {
	p.t.Helper()
	if p.refuse() {
		p.listen()
	}
}

// ResetPeer breaks every open connection and answers the first request on each new one with a TCP reset at both ends
// until Heal. The request is lost, and so never carried out.
func (p *ToxicProxy) ResetPeer() {
	p.t.Helper()
	p.change(func() { p.faults.reset = true })
	p.Reset()
}

// Refuse breaks every open connection and refuses new ones until Heal.
func (p *ToxicProxy) Refuse() { p.refuse() }

// refuse is Refuse, and reports whether the proxy has listened.
func (p *ToxicProxy) refuse() (listened bool) {
	p.change(func() {
		if listened = p.listener != nil; listened {
			_ = p.listener.Close()
			p.listener = nil
		}
		for l := range p.links {
			l.end(false)
		}
	})
	return listened
}

// Heal takes every fault away.
func (p *ToxicProxy) Heal() {
	p.t.Helper()
	refuses := false
	p.change(func() {
		for l := range p.links {
			if l.cut {
				l.end(false)
			}
		}
		p.faults, refuses = proxyFaults{}, p.listener == nil
	})
	if refuses {
		p.listen()
	}
}

// change sets what becomes of connections. Those that are open during a cut are marked, for Heal.
func (p *ToxicProxy) change(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	for l := range p.links {
		l.cut = l.cut || p.faults.cut[toServer] || p.faults.cut[toClient]
	}
}

// listen tries until the port can be had, which is reserved: but a process that is being forked holds whatever listened
// on it just before, until it has become another program.
func (p *ToxicProxy) listen() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
		l, err = net.Listen("tcp", p.addr)
	}
	Must(p.t, err)
	p.change(func() { p.listener = l })
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(l, client) })
		}
	})
}
