package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
)

// ZooKeeper is an elector whose candidates queue under znodes. One session serves all names.
type ZooKeeper struct {
	*elector
	session *session
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
	open := func(name string, log *slog.Logger) place { return newNode(session, cfg.Root, name, log) }
	return &ZooKeeper{elector: newElector(cfg, epochs, open), session: session}, nil
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
	z.stop()
	return z.session.close()
}
