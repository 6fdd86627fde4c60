package index

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinelTimeout = 400 * time.Millisecond // of one round; a sentinel's host may be lost
	watchInterval   = time.Second            // between two rounds
	discoverRounds  = 30                     // rounds between two discoveries of further sentinels
)

// sentinels follows the master of a Sentinel deployment. Once a second it asks all sentinels, side by side, for the
// master's address. When another server has become master, it closes all connections to the old one.
//
// The client library's own failover client asks one sentinel at a time, within the timeout of the command that needs a
// connection: if that sentinel's host is lost, every command fails before another sentinel is asked. It also keeps a
// subscription at the old master, which acts as a master for about ten seconds after a planned failover.
type sentinels struct {
	name    string // of the master
	options *redis.Options
	dialer  net.Dialer
	tls     *tls.Config

	watching sync.Once
	start    func() // of the watch
	stop     context.CancelFunc
	running  sync.WaitGroup

	asking sync.Mutex // one question at a time

	mu      sync.Mutex
	master  string // the master's address by the last answer; empty: no answer yet
	rounds  int    // rounds so far
	err     error  // of the last round
	clients map[string]*redis.SentinelClient
	named   []string // addresses of sentinels in the configuration
	found   []string // addresses of further sentinels
	conns   map[*masterConn]string
}

// sentinelError is a sentinel's error, so that a refusal names the configuration keys of the sentinels' credentials.
type sentinelError struct{ err error }

func (e *sentinelError) Error() string { return "sentinel: " + e.err.Error() }
func (e *sentinelError) Unwrap() error { return e.err }

// answer is one sentinel's answer. A later failover has a larger epoch.
type answer struct {
	addr  string
	epoch int64
}

func newSentinels(cfg Config, master *redis.Options) *sentinels {
	s := &sentinels{
		name: cfg.MasterName, tls: cfg.TLS, dialer: net.Dialer{Timeout: master.DialTimeout},
		options: &redis.Options{
			Username: cfg.SentinelUsername, Password: cfg.SentinelPassword, TLSConfig: cfg.TLS,
			Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 2, ContextTimeoutEnabled: true,
			DialTimeout: sentinelTimeout, ReadTimeout: sentinelTimeout, WriteTimeout: sentinelTimeout, PoolTimeout: sentinelTimeout,
			MaintNotificationsConfig: master.MaintNotificationsConfig,
		},
		named: cfg.Addrs, clients: map[string]*redis.SentinelClient{}, conns: map[*masterConn]string{},
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.start = stop, func() { s.running.Go(func() { s.watch(ctx) }) }
	return s
}

// close ends the watch. The pools close their connections.
func (s *sentinels) close() error {
	s.stop()
	s.watching.Do(func() {}) // a later dial starts no watch
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, c := range s.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// dial connects to the master.
func (s *sentinels) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.watching.Do(s.start)
	addr, err := s.address(ctx)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if s.tls == nil {
		conn, err = s.dialer.DialContext(ctx, network, addr)
	} else {
		conn, err = (&tls.Dialer{NetDialer: &s.dialer, Config: s.tls}).DialContext(ctx, network, addr)
	}
	if err != nil {
		return nil, err
	}
	return s.keep(conn, addr)
}

// address returns the master's address by the last answer. The watch updates it, so that no dial waits for a lost
// sentinel.
func (s *sentinels) address(ctx context.Context) (string, error) {
	s.mu.Lock()
	addr, rounds := s.master, s.rounds
	s.mu.Unlock()
	if addr != "" {
		return addr, nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mu.Lock()
	addr, err, asked := s.master, s.err, s.rounds > rounds
	s.mu.Unlock()
	if asked { // by another goroutine meanwhile
		return addr, err
	}
	return s.ask(ctx)
}

// watch repeats rounds until close.
func (s *sentinels) watch(ctx context.Context) {
	for ctx.Err() == nil {
		s.asking.Lock()
		_, _ = s.ask(ctx)
		s.asking.Unlock()
		pause(ctx, watchInterval)
	}
}

// ask runs one round: it asks the sentinels, and records the master.
func (s *sentinels) ask(ctx context.Context) (string, error) {
	s.mu.Lock()
	named, found, discover := s.named, s.found, s.rounds%discoverRounds == 0
	s.mu.Unlock()
	best, err := s.askAll(ctx, named)
	if err != nil && len(found) > 0 && ctx.Err() == nil {
		best, err = s.askAll(ctx, found)
	}
	if err == nil && discover {
		s.discover(ctx, append(slices.Clone(named), found...))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds, s.err = s.rounds+1, err
	if err != nil {
		return "", err
	}
	s.master = best.addr
	for conn, addr := range s.conns {
		if addr != best.addr {
			delete(s.conns, conn)
			_ = conn.Conn.Close() // the connection's user gets an error
		}
	}
	return best.addr, nil
}

// askAll returns the answer with the latest epoch: a sentinel that was cut off or frozen may not know of a failover.
func (s *sentinels) askAll(ctx context.Context, addrs []string) (best answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	answers, errs := make([]answer, len(addrs)), make([]error, len(addrs))
	var asked sync.WaitGroup
	for i, addr := range addrs {
		asked.Go(func() { answers[i], errs[i] = s.askOne(ctx, s.client(addr)) })
	}
	asked.Wait()
	some := slices.DeleteFunc(answers, func(a answer) bool { return a.addr == "" })
	if len(some) == 0 {
		return answer{}, fmt.Errorf("master %q: %w: %w", s.name, errNoMaster, firstRefusal(errs))
	}
	return slices.MaxFunc(some, func(a, b answer) int { return cmp.Compare(a.epoch, b.epoch) }), nil
}

// askOne reads the epoch before the address, so that the address is of that epoch or of a later one.
func (s *sentinels) askOne(ctx context.Context, c *redis.SentinelClient) (answer, error) {
	facts, err := c.Master(ctx, s.name).Result()
	if err != nil {
		return answer{}, &sentinelError{err}
	}
	epoch, _ := strconv.ParseInt(facts["config-epoch"], 10, 64) // 0 before the first failover
	addr, err := c.GetMasterAddrByName(ctx, s.name).Result()
	if err == nil && len(addr) != 2 {
		err = fmt.Errorf("an address of %d parts", len(addr))
	}
	if err != nil {
		return answer{}, &sentinelError{err}
	}
	return answer{net.JoinHostPort(addr[0], addr[1]), epoch}, nil
}

// discover finds sentinels that are not in the configuration. They are asked when all configured ones are lost.
func (s *sentinels) discover(ctx context.Context, addrs []string) {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	found := map[string]bool{}
	for _, addr := range addrs {
		others, err := s.client(addr).Sentinels(ctx, s.name).Result()
		if err != nil {
			continue
		}
		for _, other := range others {
			found[net.JoinHostPort(other["ip"], other["port"])] = true
		}
		break // sentinels know each other
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, addr := range s.named {
		delete(found, addr)
	}
	if len(found) > 0 {
		s.found = slices.Sorted(maps.Keys(found))
	}
}

func (s *sentinels) client(addr string) *redis.SentinelClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[addr]
	if c == nil {
		o := *s.options
		o.Addr = addr
		c = redis.NewSentinelClient(&o)
		s.clients[addr] = c
	}
	return c
}

// firstRefusal returns the first error that retrying cannot fix, or all errors.
func firstRefusal(errs []error) error {
	if i := slices.IndexFunc(errs, IsRefused); i >= 0 {
		return errs[i]
	}
	return errors.Join(errs...)
}

// keep registers a connection until it is closed. It closes a connection to a server that is no longer the master.
func (s *sentinels) keep(conn net.Conn, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr != s.master {
		_ = conn.Close()
		return nil, fmt.Errorf("%s is no longer the master: %w", addr, errNoMaster)
	}
	kept := &masterConn{Conn: conn, of: s}
	s.conns[kept] = addr
	if plain, ok := conn.(*net.TCPConn); ok {
		return &plainConn{kept, plain}, nil
	}
	return kept, nil
}

// masterConn is a connection to a master.
type masterConn struct {
	net.Conn

	of *sentinels
}

// Close also forgets the connection.
func (c *masterConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// plainConn lets the client library check the socket of an idle connection without TLS.
type plainConn struct {
	*masterConn
	syscall.Conn
}
