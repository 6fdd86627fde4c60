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
	// refusals is how many sessions in a row servers must refuse before the connection is thought hopeless.
	refusals = 3
)

// session is the elector's connection to ZooKeeper. The client renews an expired session by itself; session says which
// one stands, runs calls that can be abandoned, and replaces the client where it can't recover.
type session struct {
	cfg Config
	log *slog.Logger

	mu         sync.Mutex
	conn       *zk.Conn
	line       *line
	ended      <-chan zk.Event // closed when conn's loop has ended
	id         sessionID
	up         bool
	since      time.Time     // of the last change of up
	changed    chan struct{} // closed and replaced at every change
	ever       bool          // a session stood once
	distrusted int           // TLS handshakes that retrying cannot fix
	refusal    error         // why no session will ever stand
	timeout    time.Duration // negotiated
	closed     bool

	vouching sync.Mutex // guards vouched
	vouched  *zk.Conn   // has shown who we are

	background sync.WaitGroup // the monitor, and closings of replaced clients
	quit       chan struct{}
}

// sessionID tells sessions apart, also across replaced clients.
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

// connectLocked starts a client; the session comes later, by event. Events wait for mu, so they see the client.
func (s *session) connectLocked() error {
	line := newLine(max(time.Second, s.cfg.SessionTimeout/2), s.cfg.TLS, s.distrust)
	generation := s.id.generation + 1
	conn, events, err := zk.Connect(s.cfg.Servers, s.cfg.SessionTimeout,
		zk.WithHostProvider(&servers{}), zk.WithDialer(line.dial), zk.WithLogger(quiet{s.log}),
		// The channel holds six events and drops the rest, the callback drops none.
		zk.WithEventCallback(func(ev zk.Event) { s.onEvent(generation, ev) }))
	if err != nil {
		line.cut()
		return fmt.Errorf("connect to zookeeper: %w", err)
	}
	s.conn, s.line, s.ended = conn, line, events
	s.id = sessionID{generation: generation}
	s.changeLocked(false)
	return nil
}

// distrust notes a TLS handshake that retrying cannot fix. Where every server is so before a session ever stood, none will.
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
			s.timeout = time.Duration(s.line.negotiated.Load()) * time.Millisecond
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

// now is the session that stands, whether its connection is up, and a channel that closes at the next change.
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
		select {
		case <-ctx.Done():
			return sessionID{}, fmt.Errorf("wait for zookeeper: %w", ctx.Err())
		case <-changed:
		}
	}
}

// call runs one request, and leaves it behind when ctx ends or it takes too long: its effect is then unknown.
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
		if a.err = s.vouch(conn); a.err == nil {
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

// vouch shows who we are before the client's first request; the client repeats it by itself on each new connection.
func (s *session) vouch(conn *zk.Conn) error {
	if s.cfg.Username == "" {
		return nil
	}
	s.vouching.Lock()
	defer s.vouching.Unlock()
	if s.vouched == conn {
		return nil
	}
	if err := conn.AddAuth("digest", []byte(s.cfg.Username+":"+s.cfg.Password)); err != nil {
		return fmt.Errorf("show who we are: %w", err)
	}
	s.vouched = conn
	return nil
}

// replace gives the client up, with its session, and starts another. The old session's nodes vanish at once where a
// server can be told, or when the session times out.
func (s *session) replace(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	conn, line, ended := s.conn, s.line, s.ended
	if err := s.connectLocked(); err != nil {
		s.log.Error("zookeeper client not replaced", "err", err)
		return
	}
	s.log.Warn("zookeeper client replaced", "state", reason)
	s.background.Go(func() {
		if err := shut(conn, line, ended); err != nil {
			s.log.Warn("replaced zookeeper client not closed", "err", err)
		}
	})
}

// monitor replaces a client that every server refuses, and says now and then that ZooKeeper is awaited.
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
		if up || s.id.zk == 0 || s.line.refused.Load() < refusals {
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
			// Servers whose data were wiped refuse a client that has seen a later transaction than they have, for ever.
			// Those that have no quorum yet refuse everybody, for a moment.
			s.replace("refused")
		case away > silent:
			s.log.Warn("waiting for zookeeper", "n", int(away.Seconds()))
			silent = min(2*silent, away+time.Minute)
		}
	}
}

// close ends the session, at the server too if it answers in time.
func (s *session) close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	conn, line, ended := s.conn, s.line, s.ended
	s.mu.Unlock()
	close(s.quit)
	err := shut(conn, line, ended)
	s.background.Wait()
	return err
}

// shut closes a client and waits for its loop. Where no session stands there is nobody to tell.
func shut(conn *zk.Conn, line *line, ended <-chan zk.Event) error {
	reported := conn.State() == zk.StateHasSession
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn.Close()
	}()
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	if reported {
		select {
		case <-closed:
		case <-limit.C:
		}
	}
	line.cut()
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

// quiet sends the client's own lines to the debug level: the transitions are told by session.
type quiet struct{ log *slog.Logger }

// Printf is the client's logger interface.
func (q quiet) Printf(format string, args ...any) {
	q.log.Debug("zookeeper client", "state", fmt.Sprintf(format, args...))
}
