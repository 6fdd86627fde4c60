package pipelinetest

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// The directions of a link.
const (
	toServer = iota
	toClient
)

// proxyLink is a client's connection to the proxy, with the one to the server.
type proxyLink struct {
	client, server net.Conn
	cut            bool // guarded by the proxy's mu: it was open during a cut

	once sync.Once
	over chan struct{} // closed when both connections are
}

// end closes both connections, orderly or by a TCP reset.
func (l *proxyLink) end(reset bool) {
	l.once.Do(func() {
		for _, conn := range []net.Conn{l.client, l.server} {
			if tcp, ok := conn.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
		close(l.over)
	})
}

// serve connects a client to the server until one of them closes, or the proxy breaks the link.
func (p *ToxicProxy) serve(by net.Listener, client net.Conn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", upstream, 10*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &proxyLink{client: client, server: server, over: make(chan struct{})}
	p.change(func() {
		if p.listener == by && p.upstream == upstream { // neither refused nor redirected meanwhile
			p.links[l] = true
			return
		}
		l.end(false)
	})
	var pipes sync.WaitGroup
	pipes.Go(func() { p.pipe(l, toServer, client, server) })
	pipes.Go(func() { p.pipe(l, toClient, server, client) })
	pipes.Wait()
	p.change(func() { delete(p.links, l) })
}

// chunk is what came at one moment.
type chunk struct {
	data []byte
	at   time.Time
}

// pipe forwards one direction of a link. The end of it ends the link.
func (p *ToxicProxy) pipe(l *proxyLink, direction int, from, to net.Conn) {
	chunks := make(chan chunk, 1000) // what comes while a chunk waits out its latency is not delayed twice
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(chunks)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case chunks <- chunk{bytes.Clone(buffer[:n]), time.Now()}:
				case <-l.over:
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if !p.forward(l, direction, c, to) {
			break
		}
	}
	l.end(false)
	reading.Wait()
}

// forward does to a chunk what the faults of its moment say; false ends the link.
func (p *ToxicProxy) forward(l *proxyLink, direction int, c chunk, to net.Conn) bool {
	if latency := p.now().latency; latency > 0 && direction == toClient {
		select {
		case <-time.After(time.Until(c.at.Add(latency))):
		case <-l.over:
			return false
		}
	}
	switch faults := p.now(); {
	case faults.reset && direction == toServer:
		l.end(true)
		return false
	case faults.cut[direction]:
		return true
	}
	_, err := to.Write(c.data)
	return err == nil
}

// now returns the faults as they are now.
func (p *ToxicProxy) now() proxyFaults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}
