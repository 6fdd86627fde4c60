package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hold serves h until the test ends.
func hold(t *testing.T, h http.Handler) net.Addr {
	t.Helper()
	served, ended := make(chan net.Addr, 1), make(chan struct{})
	end := make(chan struct{})
	go func() {
		defer close(ended)
		newHarness().main(func(ctx context.Context, env *Env) error {
			addr, err := env.Serve(ctx, "api", "127.0.0.1:0", h)
			if err != nil {
				return err
			}
			served <- addr
			<-end
			return nil
		})
	}()
	t.Cleanup(func() { close(end); <-ended })
	select {
	case addr := <-served:
		return addr
	case <-ended:
		t.Fatal("not served")
		return nil
	}
}

// drip sends bytes one by one until the server hangs up, and returns how long that took.
func drip(t *testing.T, addr net.Addr, head string) time.Duration {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	began := time.Now()
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	forever := time.After(time.Minute)
	for {
		select {
		case <-gone:
			return time.Since(began)
		case <-tick.C:
			_, _ = io.WriteString(conn, "a") // the server may have hung up
		case <-forever:
			t.Fatal("the server bears it for ever")
		}
	}
}

func TestSlowClients(t *testing.T) {
	t.Parallel()
	addr := hold(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	for name, c := range map[string]struct {
		head  string
		limit time.Duration
	}{
		"nothing but a slow header": {"GET / HTTP/1.1\r\nHost: x\r\nX: ", headerTimeout},
		"a slow body":               {"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n", readTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if took := drip(t, addr, c.head); took > c.limit+20*time.Second {
				t.Errorf("borne for %v, want about %v", took, c.limit)
			}
		})
	}
}

// TestSlowReader reads an endless answer as slowly as possible.
func TestSlowReader(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for the server's own limit")
	}
	t.Parallel()
	gaveUp := make(chan struct{})
	addr := hold(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				close(gaveUp)
				return
			}
		}
	}))
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gaveUp:
	case <-time.After(writeTimeout + time.Minute):
		t.Error("the server writes for ever")
	}
}

func TestHugeHeader(t *testing.T) {
	t.Parallel()
	addr := hold(t, http.NotFoundHandler())
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 1<<20)) }()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", res.StatusCode)
	}
}

func TestHugeBody(t *testing.T) {
	t.Parallel()
	type outcome struct {
		n   int64
		err error
	}
	read := make(chan outcome, 1)
	addr := hold(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		read <- outcome{n, err}
	}))
	// The body has no known length: the server can't refuse it before reading.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr.String(), io.LimitReader(zeros{}, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if res, err := http.DefaultClient.Do(req); err == nil { // an error means that the server hung up
		_ = res.Body.Close()
	}
	got := <-read
	if _, tooLarge := errors.AsType[*http.MaxBytesError](got.err); !tooLarge || got.n > maxBodyBytes {
		t.Errorf("the handler read %d bytes (%v), want at most %d", got.n, got.err, maxBodyBytes)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
