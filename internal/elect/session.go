package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/duetime/duetime/internal/trust"
)

const (
	// callTimeout bounds one request to ZooKeeper; the client's calls take no context.
	callTimeout = 2 * time.Second
	// closeTimeout bounds closing a session whose server doesn't answer.
	closeTimeout = 1200 * time.Millisecond
	// refusalsToReplace is the number of refused sessions in a row after which the client may be replaced.
	refusalsToReplace = 3
)

// session is the elector's connection to ZooKeeper. The client renews an expired session by itself. A session knows which
// session is current, runs calls that can be abandoned, and replaces a client that can't recover.
type session struct {
	cfg Config
	log *slog.Logger

	mu         sync.Mutex
	conn       *zk.Conn
	dialer     *clientDialer
	ended      <-chan zk.Event // closed when conn's loop has ended
	id         sessionID
	up         bool
	since      time.Time     // when up last changed
	changed    chan struct{} // closed and replaced at every change
	ever       bool          // a session was established once
	distrusted int           // TLS handshakes that retrying cannot fix
	refusal    error         // why no session will ever be established
	timeout    time.Duration // negotiated
	closed     bool

	authMu        sync.Mutex // guards authenticated
	authenticated *zk.Conn

	background sync.WaitGroup // the monitor, and closings of replaced clients
	quit       chan struct{}
}

// sessionID identifies a session, also across replaced clients.
type sessionID struct {
	generation int
	zk         int64
}

func openSession(cfg Config) (*session, error) {
	s := &session{
		cfg: cfg, log: cfg.Logger, since: time.Now(), timeout: cfg.SessionTimeout,
		changed: make(chan struct{}), quit: make(chan struct{}),
	}
	s.mu.Lock()
	err := s.connectLocked()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.background.Go(s.monitor)
	return s, nil
}

// connectLocked starts a client. The session comes later, by an event. Events wait for mu, so they see this client.
func (s *session) connectLocked() error {
	dialer := newClientDialer(max(time.Second, s.cfg.SessionTimeout/2), s.cfg.TLS, s.distrust)
	generation := s.id.generation + 1
	conn, events, err := zk.Connect(s.cfg.Servers, s.cfg.SessionTimeout,
		zk.WithHostProvider(&servers{}), zk.WithDialer(dialer.dial), zk.WithLogger(debugLogger{s.log}),
		// The channel holds six events and drops others; the callback drops none.
		zk.WithEventCallback(func(ev zk.Event) { s.onEvent(generation, ev) }))
	if err != nil {
		dialer.cut()
		return fmt.Errorf("connect to zookeeper: %w", err)
	}
	s.conn, s.dialer, s.ended = conn, dialer, events
	s.id = sessionID{generation: generation}
	s.changeLocked(false)
	return nil
}

// distrust records a TLS handshake that retrying cannot fix. If this happens as often as there are servers before any
// session, no session will ever be established.
func (s *session) distrust(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distrusted++
	if s.ever || s.distrusted < len(s.cfg.Servers) || s.refusal != nil {
		return
	}
	s.refusal = &trust.Refusal{Key: "zookeeper.tls.ca_file", Err: err}
	s.changeLocked(false)
}

func (s *session) onEvent(generation int, ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.id.generation || s.closed {
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		if id := s.conn.SessionID(); id != s.id.zk {
			s.id.zk = id
			s.timeout = time.Duration(s.dialer.negotiated.Load()) * time.Millisecond
			s.log.Info("zookeeper session established", "state", ev.State.String(), "n", s.timeout.Milliseconds()) // n: its timeout
		} else {
			s.log.Info("zookeeper connection back, same session", "state", ev.State.String())
		}
		s.ever = true
		s.changeLocked(true)
	case zk.StateExpired:
		s.log.Warn("zookeeper session expired", "state", ev.State.String())
		s.id.zk = 0
		s.changeLocked(false)
	case zk.StateDisconnected:
		if s.up {
			s.log.Warn("zookeeper connection lost", "state", ev.State.String())
			s.changeLocked(false)
		}
	}
}

func (s *session) changeLocked(up bool) {
	if up != s.up {
		s.since = time.Now()
	}
	s.up = up
	close(s.changed)
	s.changed = make(chan struct{})
}

// now returns the current session, whether its connection is up, and a channel that closes at the next change.
func (s *session) now() (id sessionID, up bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.up, s.changed
}

// ready waits until a session's connection is up.
func (s *session) ready(ctx context.Context) (sessionID, error) {
	for {
		id, up, changed := s.now()
		if up {
			return id, nil
		}
		if err := wait(ctx, changed, nil); err != nil {
			return sessionID{}, err
		}
	}
}

// call runs one request. It abandons the request when ctx ends or callTimeout is over: then the request's effect is
// unknown.
func call[T any](ctx context.Context, s *session, what string, request func(*zk.Conn) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		if a.err = s.authenticate(conn); a.err == nil {
			a.value, a.err = request(conn)
		}
		answered <- a
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err != nil {
		return a.value, fmt.Errorf("%s: %w", what, a.err)
	}
	return a.value, nil
}

// authenticate sends the credentials before the client's first request. The client repeats them on each new connection.
func (s *session) authenticate(conn *zk.Conn) error {
	if s.cfg.Username == "" {
		return nil
	}
	s.authMu.Lock()
	defer s.authMu.Unlock()
	if s.authenticated == conn {
		return nil
	}
	if err := conn.AddAuth("digest", []byte(s.cfg.Username+":"+s.cfg.Password)); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	s.authenticated = conn
	return nil
}

// replace gives up the client, with its session, and starts another. The old session's nodes vanish at once if a server
// takes the close, else when the session times out.
func (s *session) replace(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	conn, dialer, ended := s.conn, s.dialer, s.ended
	if err := s.connectLocked(); err != nil {
		s.log.Error("zookeeper client not replaced", "err", err)
		return
	}
	s.log.Warn("zookeeper client replaced", "state", reason)
	s.background.Go(func() {
		if err := closeClient(conn, dialer, ended); err != nil {
			s.log.Warn("replaced zookeeper client not closed", "err", err)
		}
	})
}

// monitor replaces a client that every server refuses, and logs at growing intervals that it waits for ZooKeeper.
func (s *session) monitor() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	silent := 2 * time.Second
	var refused time.Time // since when sessions have been refused
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		up, away, timeout := s.up, time.Since(s.since), s.timeout
		if up || s.id.zk == 0 || s.dialer.refused.Load() < refusalsToReplace {
			refused = time.Time{}
		} else if refused.IsZero() {
			refused = time.Now()
		}
		s.mu.Unlock()
		hopeless := !refused.IsZero() && time.Since(refused) > timeout/3 && away > timeout
		switch {
		case up:
			silent = 2 * time.Second
		case hopeless:
			// The servers' data were probably wiped: see the last race of the package comment.
			s.replace("refused")
		case away > silent:
			s.log.Warn("waiting for zookeeper", "n", int(away.Seconds()))
			silent = min(2*silent, away+time.Minute)
		}
	}
}

// close ends the session, also at the server if it answers in time.
func (s *session) close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	conn, dialer, ended := s.conn, s.dialer, s.ended
	s.mu.Unlock()
	close(s.quit)
	err := closeClient(conn, dialer, ended)
	s.background.Wait()
	return err
}

// closeClient closes a client and waits for its loop. It waits for the server's answer only if there is a session.
func closeClient(conn *zk.Conn, dialer *clientDialer, ended <-chan zk.Event) error {
	hasSession := conn.State() == zk.StateHasSession
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn.Close()
	}()
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	if hasSession {
		select {
		case <-closed:
		case <-limit.C:
		}
	}
	dialer.cut()
	<-closed
	for {
		select {
		case _, open := <-ended:
			if !open {
				return nil
			}
		case <-limit.C:
			return errors.New("zookeeper client did not end in time")
		}
	}
}

// debugLogger logs the client's own lines at debug level, because session logs the transitions.
type debugLogger struct{ log *slog.Logger }

// Printf is the client's logger interface.
func (q debugLogger) Printf(format string, args ...any) {
	q.log.Debug("zookeeper client", "state", fmt.Sprintf(format, args...))
}
