package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// ToxicProxy stands between clients and one server and misbehaves as told. Faults add up until Heal. Methods end the
// test on an error and may be called from the test's goroutine only.
type ToxicProxy struct {
	t    testing.TB
	addr string
	tp   *toxiproxy.Proxy
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
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &ToxicProxy{t: t, addr: addr, tp: toxiproxy.NewProxy(server, addr, addr, upstream)}
	p.listen(p.tp.Start)
	t.Cleanup(p.tp.Stop)
	return p
}

// Addr returns where clients connect instead of to the server.
func (p *ToxicProxy) Addr() string { return p.addr }

// Redirect leads new connections to another server, which may be down, and breaks those to the old one. Faults stay.
func (p *ToxicProxy) Redirect(upstream string) {
	p.t.Helper()
	to := &toxiproxy.Proxy{Listen: p.addr, Upstream: upstream, Enabled: p.enabled()}
	p.listen(func() error { return p.tp.Update(to) })
}

// Cut makes the network swallow everything in both directions: connections stay open, new ones are accepted, nothing
// comes through. The end of a connection does: one that its client closes ends at the server too. Heal breaks every
// connection that was open during the cut.
func (p *ToxicProxy) Cut() {
	p.t.Helper()
	p.CutUpstream()
	p.CutDownstream()
}

// CutUpstream swallows what clients send: requests are lost, and so never carried out.
func (p *ToxicProxy) CutUpstream() { p.t.Helper(); p.add("upstream", "timeout", `{"timeout":0}`) }

// CutDownstream swallows what the server sends: requests are carried out and their answers are lost.
func (p *ToxicProxy) CutDownstream() { p.t.Helper(); p.add("downstream", "timeout", `{"timeout":0}`) }

// Latency delays what the server sends by d, in whole milliseconds.
func (p *ToxicProxy) Latency(d time.Duration) {
	p.t.Helper()
	p.add("downstream", "latency", fmt.Sprintf(`{"latency":%d}`, d.Milliseconds()))
}

// Reset breaks every open connection; new ones are served.
func (p *ToxicProxy) Reset() {
	p.t.Helper()
	if p.enabled() {
		p.tp.Stop()
		p.listen(p.tp.Start)
	}
}

// ResetPeer breaks every open connection and answers the first request on each new one with a TCP reset at both ends
// until Heal. The request is lost, and so never carried out.
func (p *ToxicProxy) ResetPeer() {
	p.t.Helper()
	p.add("upstream", "reset_peer", `{"timeout":0}`)
	p.Reset()
}

// Refuse breaks every open connection and refuses new ones until Heal.
func (p *ToxicProxy) Refuse() { p.tp.Stop() }

// Heal takes every fault away.
func (p *ToxicProxy) Heal() {
	p.t.Helper()
	p.tp.Toxics.ResetToxics(context.Background())
	if !p.enabled() {
		p.listen(p.tp.Start)
	}
}

// listen runs start until the port can be had, which is reserved: but a process that is being forked holds whatever listened
// on it just before, until it has become another program.
func (p *ToxicProxy) listen(start func() error) {
	p.t.Helper()
	err := start()
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); err = start() {
		time.Sleep(5 * time.Millisecond)
	}
	Must(p.t, err)
}

// enabled says whether the proxy listens.
func (p *ToxicProxy) enabled() bool {
	p.tp.Lock()
	defer p.tp.Unlock()
	return p.tp.Enabled
}

func (p *ToxicProxy) add(direction, kind, attributes string) {
	p.t.Helper()
	toxic := fmt.Sprintf(`{"stream":%q,"type":%q,"attributes":%s}`, direction, kind, attributes)
	if _, err := p.tp.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("add %s to %s: %v", kind, direction, err)
	}
}
