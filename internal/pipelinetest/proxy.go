package pipelinetest

import (
	"context"
	"fmt"
	"strings"
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
	Must(t, p.tp.Start())
	t.Cleanup(p.tp.Stop)
	return p
}

// Addr returns where clients connect instead of to the server.
func (p *ToxicProxy) Addr() string { return p.addr }

// Cut makes the network swallow everything in both directions: connections stay open, new ones are accepted, nothing
// comes through. Heal closes the connections that lost data.
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
	p.tp.Stop()
	Must(p.t, p.tp.Start())
}

// Refuse breaks every open connection and refuses new ones until Heal.
func (p *ToxicProxy) Refuse() { p.tp.Stop() }

// Heal takes every fault away.
func (p *ToxicProxy) Heal() {
	p.t.Helper()
	p.tp.Toxics.ResetToxics(context.Background())
	p.tp.Lock()
	up := p.tp.Enabled
	p.tp.Unlock()
	if !up {
		Must(p.t, p.tp.Start())
	}
}

func (p *ToxicProxy) add(direction, kind, attributes string) {
	p.t.Helper()
	toxic := fmt.Sprintf(`{"stream":%q,"type":%q,"attributes":%s}`, direction, kind, attributes)
	if _, err := p.tp.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("add %s to %s: %v", kind, direction, err)
	}
}
