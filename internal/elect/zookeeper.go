package elect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ZooKeeper is an elector whose candidates queue under znodes. One session serves all names.
type ZooKeeper struct {
	cfg     Config
	epochs  Epochs
	session *session

	closing context.Context //nolint:containedctx // done once Close was called
	close   context.CancelFunc
	leads   sync.WaitGroup

	mu     sync.Mutex
	names  map[string]bool
	closed bool
}

// NewZooKeeper checks cfg and starts connecting. It doesn't wait for the servers, and fails only if waiting can't help. A
// ZooKeeper must be closed, or its session lives on.
func NewZooKeeper(cfg Config, epochs Epochs) (*ZooKeeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("zookeeper elector: %w", err)
	}
	cfg = cfg.withDefaults()
	var err error
	if cfg.Servers, err = addresses(cfg.Servers); err != nil {
		return nil, fmt.Errorf("zookeeper elector: %w", err)
	}
	session, err := openSession(cfg)
	if err != nil {
		return nil, err
	}
	closing, cancel := context.WithCancel(context.Background())
	return &ZooKeeper{cfg: cfg, epochs: epochs, session: session, closing: closing, close: cancel, names: map[string]bool{}}, nil
}

// addresses checks the servers and adds default ports.
func addresses(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, errors.New("no servers given")
	}
	servers = slices.Clone(servers)
	for i, server := range servers {
		if !strings.Contains(server, ":") {
			server = net.JoinHostPort(server, "2181")
		}
		_, port, err := net.SplitHostPort(server)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", server, err)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strings.ContainsAny(server, "/ ,") {
			return nil, fmt.Errorf("server %q is not of the form host:port; there is no chroot", server)
		}
		servers[i] = server
	}
	return servers, nil
}

// Lead is a candidate for name until ctx is done or the elector is closed. It calls fn once per term. fn's context ends
// when its term must stop; losing ZooKeeper alone doesn't end it. Lead waits for fn to return before it starts the next
// term and before it returns itself, so fn must honour its context. An fn that returns during its term resigns.
//
// Lead returns nil when it was stopped, even if Close was called before it; ErrCandidate if this elector already has a
// candidate for name; and an error if name can't be a znode's, or if the servers refuse the candidate, which is
// permanent.
func (z *ZooKeeper) Lead(ctx context.Context, name string, fn func(ctx context.Context, term *Term) error) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("lead %q: not a name for a znode", name)
	}
	if open, err := z.register(name); err != nil || !open {
		return err
	}
	defer z.unregister(name)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(z.closing, cancel)()

	log := z.cfg.Logger.With("kind", name)
	c := &candidate{cfg: z.cfg, epochs: z.epochs, log: log, name: name, fn: fn, place: newNode(z.session, z.cfg.Root, name, log)}
	return c.run(ctx)
}

// register records the candidate; open is false after Close.
func (z *ZooKeeper) register(name string) (open bool, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case z.closed:
		return false, nil
	case z.names[name]:
		return false, fmt.Errorf("lead %q: %w", name, ErrCandidate)
	}
	z.names[name] = true
	z.leads.Add(1)
	return true, nil
}

func (z *ZooKeeper) unregister(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.names, name)
	z.leads.Done()
}

// Ready waits for the first session, leader or not; a connection lost later changes nothing. An error that says why no
// session will ever be established is permanent.
func (z *ZooKeeper) Ready(ctx context.Context) error {
	for {
		z.session.mu.Lock()
		ever, refusal, changed := z.session.ever, z.session.refusal, z.session.changed
		z.session.mu.Unlock()
		if ever || refusal != nil {
			return refusal
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a zookeeper session: %w", ctx.Err())
		case <-z.closing.Done():
			return errors.New("wait for a zookeeper session: the elector is closed")
		case <-changed:
		}
	}
}

// Connected reports whether the connection to the servers is up. A leader leads on without it.
func (z *ZooKeeper) Connected() bool {
	_, up, _ := z.session.now()
	return up
}

// Close ends every Lead, waits for their functions, and closes the session, so that a successor leads within
// milliseconds. With ZooKeeper away, Close takes at most about two seconds longer than the functions.
func (z *ZooKeeper) Close() error {
	z.mu.Lock()
	z.closed = true
	z.mu.Unlock()
	z.close()
	z.leads.Wait()
	return z.session.close()
}
