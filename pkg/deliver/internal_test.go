package deliver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func newEndpoint(t *testing.T, url string) (*Pusher, *endpoint) {
	t.Helper()
	p, err := New(Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	e, err := p.check(Endpoint{URL: url, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, "order.expired", 0)
	if err != nil {
		t.Fatal(err)
	}
	return p, e
}

// A worker that stops cuts requests off; that is not the endpoint's failure.
func TestStopIsNoFailure(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p, e := newEndpoint(t, "http://"+l.Addr().String())
	for range 2 * failuresToOpen {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := p.deliver(ctx, task.Task{Payload: []byte("1")}, e); !errors.Is(err, context.Canceled) || !isStopped(err) {
			t.Fatalf("got %v, want a stop", err)
		}
	}
	if e.breaker.State() != gobreaker.StateClosed {
		t.Error("the breaker is open")
	}
}

// A day after its due time, or after it was made, a task is charged for an answer with Retry-After.
func TestRetryAfterEnds(t *testing.T) {
	t.Parallel()
	_, e := newEndpoint(t, "https://shop.example")
	now := time.Now()
	answer := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"9"}}}
	for name, tt := range map[string]struct {
		due, made time.Duration // ago
		snoozed   bool
	}{
		"young":          {time.Hour, time.Hour, true},
		"old":            {25 * time.Hour, 30 * time.Hour, false},
		"made after due": {25 * time.Hour, time.Hour, true},
		"nearly too old": {24*time.Hour - time.Second, 48 * time.Hour, true},
		"just too old":   {24 * time.Hour, 48 * time.Hour, false},
	} {
		err := e.judge(answer, "", task.Task{DueAt: now.Add(-tt.due), CreatedAt: now.Add(-tt.made)}, now)
		if worker.IsSnooze(err) != tt.snoozed || err == nil {
			t.Errorf("%s: got %v, want a snooze: %v", name, err, tt.snoozed)
		}
	}
}

// The longer an endpoint has been away, the longer its tasks wait, up to ten minutes.
func TestDelayGrows(t *testing.T) {
	t.Parallel()
	for away, shortest := range map[time.Duration]time.Duration{
		0: minDelay, time.Second: minDelay, 40 * time.Second: 10 * time.Second, 4 * time.Minute: time.Minute,
		48 * time.Hour: maxDelay,
	} {
		b := &breaker{}
		if away > 0 {
			b.opened.Store(time.Now().Add(-away).UnixMilli())
		}
		for range 100 {
			if d := b.delay(); d < shortest || d > 2*shortest+time.Second {
				t.Errorf("away for %v: waits for %v, want %v to twice that", away, d, shortest)
			}
		}
	}
}
