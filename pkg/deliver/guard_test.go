package deliver_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/deliver"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// loopbackDNS says of every name that its address is 127.0.0.1.
func loopbackDNS(t *testing.T) *net.Resolver {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = c.Close(); <-ended })
	go func() {
		defer close(ended)
		for buf := make([]byte, 4096); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			header := dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
			answer := dnsmessage.Message{Header: header, Questions: m.Questions}
			if q.Type == dnsmessage.TypeA {
				answer.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			packed, err := answer.Pack()
			if err == nil {
				_, _ = c.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.LocalAddr().String())
	}}
}

// A name with a public look whose address is this machine is refused as it is dialed; only the configuration lets it through,
// and no proxy of the environment is asked.
func TestPrivateAddressBehindAPublicName(t *testing.T) {
	t.Parallel()
	const refused = "address refused: it is not public, and neither it nor its name is allowed"
	for name, tt := range map[string]struct {
		scheme string
		allow  []string
		result string
		says   string
	}{
		"https":              {"https", []string{"10.0.0.0/8"}, duetimetest.Failed, refused},
		"allowed by name":    {"http", []string{"shop.example"}, duetimetest.Done, ""},
		"another name":       {"https", []string{"example", "op.example"}, duetimetest.Failed, refused},
		"allowed by address": {"https", []string{"127.0.0.1"}, duetimetest.Failed, "does not look like a TLS handshake"}, // it was dialed
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := says(t, http.StatusOK, "", "")
			_, port, err := net.SplitHostPort(rec.Listener.Addr().String())
			pipelinetest.Must(t, err)
			w, kind := newWorld(t, tt.allow...), kindOf("order.expired", once)
			w.pusher.ResolveBy(loopbackDNS(t))
			w.handle(kind, tt.scheme+"://shop.example:"+port+"/", 0)
			w.due(kind, "ann")
			fired := w.fire(0)
			if len(fired) != 1 || fired[0].Result != tt.result || !strings.Contains(fired[0].LastError, tt.says) {
				t.Errorf("got %v, want %s and %q", fired, tt.result, tt.says)
			}
			if n := len(rec.requests()); n != 0 && tt.result != duetimetest.Done {
				t.Errorf("%d requests came", n)
			}
		})
	}
}

func TestEndpointsAreRefused(t *testing.T) {
	t.Parallel()
	right := deliver.Endpoint{URL: "https://shop.example/", Secrets: []string{newer}}
	p, err := deliver.New(deliver.Config{})
	pipelinetest.Must(t, err)
	for says, change := range map[string]func(e *deliver.Endpoint){
		"kind a: its URL must be of the form":                                         func(e *deliver.Endpoint) { e.URL = "shop.example" },
		"kind a: its URL must begin with https":                                       func(e *deliver.Endpoint) { e.URL = "http://shop.example" },
		"kind a: its secrets: has 0 secrets":                                          func(e *deliver.Endpoint) { e.Secrets = nil },
		"kind a: its timeout of 1ms is not within 10ms and 1h0m0s":                    func(e *deliver.Endpoint) { e.Timeout = time.Millisecond },
		"kind a: its timeout of 2s is not below the handler's timeout (task.Timeout)": func(e *deliver.Endpoint) { e.Timeout = 2 * time.Second },
	} {
		e := right
		change(&e)
		err := deliver.Handle(worker.NewMux(), kindOf("a", task.Timeout(2*time.Second)), p, e)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	for says, cfg := range map[string]deliver.Config{
		`deliver: Allow: "a b"`:                       {Allow: []string{"a b"}},
		`deliver: Source: "/shop\n" must be`:          {Source: "/shop\n"},
		`deliver: Namespace: "的" must be`:             {Namespace: "的"},
		`deliver: Namespace: "a b" must be printable`: {Namespace: "a b", Source: "/shop"},
	} {
		if _, err := deliver.New(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
