package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/webhook"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	// DefaultTimeout is an Endpoint's timeout unless it says another.
	DefaultTimeout = 5 * time.Second

	connectTimeout = 10 * time.Second // of a connection that outlives the request that wanted it
	maxIdle        = 64               // connections to one host: as many as a worker usually has runners
	maxHeaderBytes = 64 << 10         // of an answer
)

// Config is what all endpoints of a Pusher share. Its zero value is usable.
type Config struct {
	// Namespace is the deployment's: the metrics' label namespace, and the end of Source's default. Default "duetime", as the
	// configuration's.
	Namespace string
	// Source is the CloudEvents source of all requests: a URI reference. Default "/duetime/" and the namespace.
	Source string
	// Allow has the names, addresses and CIDRs of endpoints that are not on the public internet. A name vouches for whatever
	// address it has. Default: none.
	Allow []string
	// Logger defaults to none.
	Logger *slog.Logger
	// Metrics defaults to none.
	Metrics prometheus.Registerer
}

// Endpoint says where the tasks of a kind go.
type Endpoint struct {
	// URL is https://host/path. Plain http goes only to a host of Config.Allow.
	URL string
	// Secrets sign each request, so that the receiver needs one of them: whsec_ and the base64 of 24 to 64 bytes. While a secret
	// is rotated there are two.
	Secrets []string
	// Timeout bounds a request, from the connection to the answer's header: 10 ms to 1 h. Default 5 s. It must be below the
	// handler's timeout.
	Timeout time.Duration
}

// Pusher sends tasks to endpoints. It is safe for concurrent use. Endpoints of one scheme, host and port share
// connections, those of one URL a breaker.
type Pusher struct {
	source    string
	guard     *webhook.Guard
	transport *http.Transport // without a client, which follows redirects: its errors repeat their Location
	log       *slog.Logger
	metrics   *metrics
	dialer    net.Dialer    // without the guard's check
	open      time.Duration // of breakers

	mu       sync.Mutex
	breakers map[string]*breaker // by URL
	away     map[string]int      // open breakers by host and port
}

// New makes a Pusher. The error names the field that is wrong, and the item of Allow.
func New(cfg Config) (*Pusher, error) {
	cfg.Namespace = cmp.Or(cfg.Namespace, "duetime")
	cfg.Source = cmp.Or(cfg.Source, "/duetime/"+cfg.Namespace)
	guard, err := webhook.NewGuard(cfg.Allow)
	if err != nil {
		return nil, fmt.Errorf("deliver: Allow: %w", err)
	}
	if err := cmp.Or(checkHeader("Namespace", cfg.Namespace), checkHeader("Source", cfg.Source)); err != nil {
		return nil, err
	}
	p := &Pusher{
		source: cfg.Source, guard: guard, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		metrics: newMetrics(metric.In(cfg.Namespace, cfg.Metrics)), dialer: net.Dialer{Timeout: connectTimeout}, open: breakerOpen,
		breakers: map[string]*breaker{}, away: map[string]int{},
	}
	// HTTP/1.1 alone: a timeout then ends its connection. A connection of HTTP/2 that hangs would be used again.
	p.transport = &http.Transport{
		DialContext: p.dial, TLSHandshakeTimeout: connectTimeout, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
	}
	return p, nil
}

// checkHeader refuses what can't stand in a header: each request would fail, and open the breaker.
func checkHeader(field, text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("deliver: %s: %q must be printable ASCII without blanks", field, text)
	}
	return nil
}

// Close closes connections that are idle. Workers must have stopped.
func (p *Pusher) Close() { p.transport.CloseIdleConnections() }

// dial connects to an address that is public or allowed.
func (p *Pusher) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := p.dialer
	d.Control = p.guard.Control(host)
	return d.DialContext(ctx, network, addr)
}

// endpoint is an Endpoint that was checked.
type endpoint struct {
	url     *url.URL
	signer  webhook.Signer
	timeout time.Duration
	breaker *breaker
}

// Handle registers an outside handler that delivers the kind's tasks to the endpoint. The error names the field of the endpoint
// that is wrong. Handle panics on a kind that is registered already, as worker.HandleOutside does.
//
// The worker's drain must not be below the handler's timeout, which is the kind's task.Timeout or worker.handler_timeout: else
// each stop cuts requests off that then are sent once more.
func Handle[P any](m *worker.Mux, kind task.Kind[P], p *Pusher, to Endpoint) error {
	e, err := p.check(to, kind.Name(), kind.Info().Timeout)
	if err != nil {
		return fmt.Errorf("deliver: kind %s: %w", kind.Name(), err)
	}
	worker.HandleOutside(m, kind, func(ctx context.Context, t worker.Task[P]) error { return p.deliver(ctx, t.Task, e) })
	return nil
}

// check returns the endpoint, or what is wrong with it. The handler's timeout is 0 for the worker's, which nobody knows yet.
func (p *Pusher) check(to Endpoint, kind string, ofHandler time.Duration) (*endpoint, error) {
	u, err := p.guard.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("its URL %w", err)
	}
	signer, err := webhook.NewSigner(to.Secrets)
	if err != nil {
		return nil, fmt.Errorf("its secrets: %w", err)
	}
	timeout := cmp.Or(to.Timeout, DefaultTimeout)
	switch {
	case timeout < task.MinTimeout || timeout > task.MaxTimeout:
		return nil, fmt.Errorf("its timeout of %v is not within %v and %v", timeout, task.MinTimeout, task.MaxTimeout)
	case ofHandler > 0 && timeout >= ofHandler:
		return nil, fmt.Errorf("its timeout of %v is not below the handler's timeout (task.Timeout) of %v", timeout, ofHandler)
	}
	return &endpoint{url: u, signer: signer, timeout: timeout, breaker: p.breakerOf(u, kind)}, nil
}

// deliver is the handler. While the breaker is open, the task waits without using up an attempt.
func (p *Pusher) deliver(ctx context.Context, t task.Task, e *endpoint) error {
	_, err := e.breaker.Execute(func() (struct{}, error) { return struct{}{}, p.send(ctx, t, e) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		p.metrics.count(e, waiting)
		return worker.Snooze(e.breaker.delay())
	}
	p.metrics.count(e, outcomeOf(err))
	return err
}

// send sends one request, and returns what its answer means for the task.
func (p *Pusher) send(ctx context.Context, t task.Task, e *endpoint) error {
	bounded, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimeout)
	defer cancel()
	var connected atomic.Bool
	req, err := p.request(traced(bounded, &connected), t, e)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	began := time.Now()
	res, err := p.transport.RoundTrip(req)
	p.metrics.duration.WithLabelValues(e.url.Host).Observe(time.Since(began).Seconds())
	switch {
	case err == nil:
		defer func() { _ = res.Body.Close() }()
		return e.judge(res, e.excerpt(res, cancel), t, time.Now())
	case errors.Is(ctx.Err(), context.Canceled):
		return stoppedError{context.Cause(ctx)}
	case bounded.Err() != nil:
		err = e.late(context.Cause(bounded), connected.Load())
	}
	return fmt.Errorf("push to %s: %s", e.url.Host, e.clean(err.Error()))
}

// errTimeout is why a request ends after the endpoint's timeout.
var errTimeout = errors.New("the endpoint's time is over")

// traced keeps in connected whether the request has a connection. A request that found a dead one asks for another.
func traced(ctx context.Context, connected *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
}

// late says what had not come when the request's time was over: a firewall in the way is not the service's slowness.
func (e *endpoint) late(cause error, connected bool) error {
	switch {
	case !errors.Is(cause, errTimeout):
		return cause
	case connected:
		return fmt.Errorf("no answer within %v", e.timeout)
	}
	return fmt.Errorf("no connection within %v", e.timeout)
}
