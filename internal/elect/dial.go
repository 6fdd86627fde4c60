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

// servers hands the ensemble's names to the client unresolved, so that each connection resolves them anew: the
// client's own provider resolves once for the life of the process, and refuses to start while a name is unknown.
type servers struct {
	mu    sync.Mutex
	names []string
	next  int
	round int // attempts since the last connection
}

// Init takes the names; the client has shuffled them.
func (s *servers) Init(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
	return nil
}

// Len is the number of names.
func (s *servers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

// Next is the name to try now; after a full round without success the client first waits a second. The second attempt
// never waits: it asks for a new session where the first learnt that the old one had expired.
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

// line dials for one client connection, and knows what the client doesn't tell: the negotiated session timeout, and
// whether servers take the connection and then refuse the session.
type line struct {
	ctx       context.Context //nolint:containedctx // the line's life: cut ends it
	cancel    context.CancelFunc
	handshake time.Duration
	tls       *tls.Config // nil: none
	distrust  func(error) // told what retrying cannot fix about the two sides of a TLS handshake

	negotiated atomic.Int64 // milliseconds
	refused    atomic.Int32 // handshakes closed without an answer since the last one answered

	mu   sync.Mutex
	conn net.Conn
}

func newLine(handshake time.Duration, cfg *tls.Config, distrust func(error)) *line {
	ctx, cancel := context.WithCancel(context.Background())
	return &line{ctx: ctx, cancel: cancel, handshake: handshake, tls: cfg, distrust: distrust}
}

// dial is the client's zk.Dialer.
func (l *line) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(l.ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if err := l.keep(conn); err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if conn, err = l.encrypt(conn, address, timeout); err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return &greeting{Conn: conn, line: l, until: time.Now().Add(l.handshake)}, nil
}

// keep makes conn the one that cut closes.
func (l *line) keep(conn net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close() // the client leaves the connection on which a session expired open
	}
	l.conn = conn
	if l.ctx.Err() != nil {
		_ = conn.Close()
	}
	return l.ctx.Err()
}

func (l *line) encrypt(conn net.Conn, address string, timeout time.Duration) (net.Conn, error) {
	if l.tls == nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	cfg := l.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address) // checked when the elector was made
	encrypted := tls.Client(conn, cfg)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		l.heed(err)
		return nil, err
	}
	return encrypted, nil
}

func (l *line) heed(err error) {
	if trust.Refused(err) {
		l.distrust(err)
	}
}

// cut ends the connection and all dialling. The client's loop notices at once.
func (l *line) cut() {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// greeting reads along with the server's answer to the session request: length, protocol, timeout, four bytes each.
// It also bounds that answer: the client would wait 6 session timeouts for a frozen server, without trying another.
type greeting struct {
	net.Conn
	line  *line
	until time.Time
	head  []byte
	over  atomic.Bool
}

const greetingLen = 12

// SetReadDeadline keeps to the handshake's own deadline until the server has answered.
func (g *greeting) SetReadDeadline(t time.Time) error {
	if !g.over.Load() {
		t = g.until
	}
	return g.Conn.SetReadDeadline(t)
}

func (g *greeting) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if g.over.Load() {
		return n, err
	}
	g.head = append(g.head, b[:n]...)
	switch {
	case len(g.head) >= greetingLen:
		g.line.negotiated.Store(int64(binary.BigEndian.Uint32(g.head[8:greetingLen])))
		g.line.refused.Store(0)
		g.over.Store(true)
		g.head = nil
	case trust.Refused(err): // an alert, because the server wants another certificate of ours
		g.line.heed(err)
	case errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		g.line.refused.Add(1)
	}
	return n, err
}
