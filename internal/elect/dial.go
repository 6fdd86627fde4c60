package elect

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/trust"
)

// servers gives the ensemble's names to the client unresolved, so that each connection resolves them: the client's own
// provider resolves them once in the life of the process, and refuses to start while a name is unknown.
type servers struct {
	mu    sync.Mutex
	names []string
	next  int
	round int // attempts since the last connection
}

// Init takes the names, which the client has shuffled.
func (s *servers) Init(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
	return nil
}

// Len returns the number of names.
func (s *servers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

// Next returns the name to try now. After a full round without success the client first waits a second. The second
// attempt never waits: after the first attempt has found that the old session expired, the second asks for a new one.
func (s *servers) Next() (name string, waitFirst bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = s.names[s.next]
	s.next = (s.next + 1) % len(s.names)
	waitFirst = s.round > 1 && s.round%len(s.names) == 0
	s.round++
	return name, waitFirst
}

// Connected ends the round.
func (s *servers) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = 0
}

// clientDialer dials for one client. It knows what the client doesn't tell: the negotiated session timeout, and whether
// servers accept the connection and then refuse the session.
type clientDialer struct {
	ctx       context.Context //nolint:containedctx // the dialer's life: cut ends it
	cancel    context.CancelFunc
	handshake time.Duration
	tls       *tls.Config // nil: none
	distrust  func(error) // called with errors of TLS handshakes that retrying cannot fix

	negotiated atomic.Int64 // milliseconds
	refused    atomic.Int32 // handshakes in a row that the server closed without an answer

	mu   sync.Mutex
	conn net.Conn
}

func newClientDialer(handshake time.Duration, cfg *tls.Config, distrust func(error)) *clientDialer {
	ctx, cancel := context.WithCancel(context.Background())
	return &clientDialer{ctx: ctx, cancel: cancel, handshake: handshake, tls: cfg, distrust: distrust}
}

// dial is the client's zk.Dialer.
func (d *clientDialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if err := d.keep(conn); err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if conn, err = d.encrypt(conn, address, timeout); err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return &handshakeConn{Conn: conn, dialer: d, until: time.Now().Add(d.handshake)}, nil
}

// keep makes conn the one that cut closes.
func (d *clientDialer) keep(conn net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close() // the client does not close a connection whose session expired
	}
	d.conn = conn
	if d.ctx.Err() != nil {
		_ = conn.Close()
	}
	return d.ctx.Err()
}

func (d *clientDialer) encrypt(conn net.Conn, address string, timeout time.Duration) (net.Conn, error) {
	if d.tls == nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	cfg := d.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address) // checked when the elector was made
	encrypted := tls.Client(conn, cfg)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		d.reportDistrust(err)
		return nil, err
	}
	return encrypted, nil
}

func (d *clientDialer) reportDistrust(err error) {
	if trust.Refused(err) {
		d.distrust(err)
	}
}

// cut closes the connection and ends all dialling. The client's loop notices at once.
func (d *clientDialer) cut() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// handshakeConn reads the server's answer to the session request with the client: length, protocol, timeout, four bytes
// each. It also bounds the wait for that answer: the client would wait 6 session timeouts for a frozen server, without
// trying another.
type handshakeConn struct {
	net.Conn
	dialer *clientDialer
	until  time.Time
	head   []byte
	over   atomic.Bool
}

const handshakeBytes = 12

// SetReadDeadline keeps the handshake's deadline until the server has answered.
func (g *handshakeConn) SetReadDeadline(t time.Time) error {
	if !g.over.Load() {
		t = g.until
	}
	return g.Conn.SetReadDeadline(t)
}

func (g *handshakeConn) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if g.over.Load() {
		return n, err
	}
	g.head = append(g.head, b[:n]...)
	switch {
	case len(g.head) >= handshakeBytes:
		g.dialer.negotiated.Store(int64(binary.BigEndian.Uint32(g.head[8:handshakeBytes])))
		g.dialer.refused.Store(0)
		g.over.Store(true)
		g.head = nil
	case trust.Refused(err): // an alert: the server wants another certificate of ours
		g.dialer.reportDistrust(err)
	case errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		g.dialer.refused.Add(1)
	}
	return n, err
}
