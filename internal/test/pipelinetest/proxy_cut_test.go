package pipelinetest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// rawConn speaks Redis's inline protocol on one connection, so that a test sees what a client's pool would hide.
type rawConn struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dialRaw(t *testing.T, addr string) *rawConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &rawConn{t: t, Conn: conn, lines: bufio.NewReader(conn)}
}

func (c *rawConn) send(line string) {
	c.t.Helper()
	_, err := c.Write([]byte(line + "\r\n"))
	pipelinetest.Must(c.t, err)
}

// read returns the next line of an answer, or the error that the connection ended with.
func (c *rawConn) read(limit time.Duration) (string, error) {
	c.t.Helper()
	pipelinetest.Must(c.t, c.SetReadDeadline(time.Now().Add(limit)))
	return c.lines.ReadString('\n')
}

func (c *rawConn) expect(step, want string) {
	c.t.Helper()
	if got, err := c.read(time.Minute); err != nil || got != want+"\r\n" {
		c.t.Fatalf("%s: got %q, %v, want %q", step, got, err, want)
	}
}

// silence fails the test unless nothing comes for a while and the connection stays open.
func (c *rawConn) silence(step string) {
	c.t.Helper()
	if got, err := c.read(200 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%s: got %q, %v, want silence", step, got, err)
	}
}

// ended fails the test unless the connection ends, orderly or by a reset, without a further byte.
func (c *rawConn) ended(step string) {
	c.t.Helper()
	if got, err := c.read(time.Minute); got != "" || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("%s: got %q, %v, want the connection's end", step, got, err)
	}
}

func TestProxyCutsOneDirection(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	around := dialRaw(t, server.Addr())
	count := func(step, want string) { t.Helper(); around.send("INCR n"); around.expect(step, want) }
	subscribed := func() *rawConn {
		t.Helper()
		conn := dialRaw(t, proxy.Addr())
		conn.send("SUBSCRIBE news")
		for _, line := range []string{"*3", "$9", "subscribe", "$4", "news", ":1"} {
			conn.expect("subscribe", line)
		}
		return conn
	}
	publish := func() { t.Helper(); around.send("PUBLISH news x"); around.expect("publish", ":1") }

	listener, through := subscribed(), dialRaw(t, proxy.Addr())
	proxy.CutUpstream()
	through.send("INCR n")
	through.silence("cut upstream")
	count("a request lost upstream", ":1")
	publish()
	listener.expect("what the server sends while upstream is cut", "*3")
	proxy.Heal()
	through.ended("healed upstream")

	listener, through = subscribed(), dialRaw(t, proxy.Addr())
	proxy.CutDownstream()
	through.send("INCR n")
	through.silence("cut downstream")
	pipelinetest.Await(t, "the request to be carried out", func() bool {
		around.send("GET n")
		size, err := around.read(time.Minute)
		pipelinetest.Must(t, err)
		value, err := around.read(time.Minute)
		pipelinetest.Must(t, err)
		return size == "$1\r\n" && value == "2\r\n"
	})
	count("a request whose answer was lost", ":3")
	publish()
	listener.silence("what the server sends while downstream is cut")
	proxy.Heal()
	through.ended("healed downstream")
	listener.ended("a listener that lost a message")

	through = dialRaw(t, proxy.Addr())
	proxy.Cut()
	dialed := dialRaw(t, proxy.Addr())
	for _, conn := range []*rawConn{through, dialed} {
		conn.send("INCR n")
		conn.silence("cut")
	}
	count("requests lost in the cut", ":4")
	proxy.Heal()
	through.ended("healed")
	dialed.ended("healed, of a connection made during the cut")
	count("after all this", ":5")
}

func TestProxyRedirect(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	first, second := pipelinetest.OwnRedis(t), pipelinetest.OwnRedis(t)
	for name, server := range map[string]*pipelinetest.RedisServer{"first": first, "second": second} {
		conn := dialRaw(t, server.Addr())
		conn.send("SET name " + name)
		conn.expect("set", "+OK")
	}
	proxy := pipelinetest.Proxy(t, first.Addr())
	ask := func(step, want string) *rawConn {
		t.Helper()
		conn := dialRaw(t, proxy.Addr())
		conn.send("GET name")
		conn.expect(step, map[string]string{"first": "$5", "second": "$6"}[want])
		conn.expect(step, want)
		return conn
	}
	old := ask("at first", "first")
	proxy.Redirect(second.Addr())
	old.ended("redirected")
	ask("redirected", "second")

	proxy.Refuse()
	proxy.Redirect(first.Addr())
	if listens(proxy.Addr()) {
		t.Error("Redirect took Refuse away")
	}
	proxy.Heal()
	ask("redirected back", "first")
}

func TestProxyResetPeer(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	server := pipelinetest.OwnRedis(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	open := dialRaw(t, proxy.Addr())
	proxy.ResetPeer()
	open.ended("open before")
	conn := dialRaw(t, proxy.Addr())
	conn.send("INCR n")
	if got, err := conn.read(time.Minute); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q, %v, want a reset", got, err)
	}
	proxy.Heal()
	conn = dialRaw(t, proxy.Addr())
	conn.send("INCR n")
	conn.expect("healed", ":1")
}
