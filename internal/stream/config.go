package stream

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config configures the stream.
type Config struct {
	Namespace   string   // prefix of topics and groups; required
	Queues      []string // queues whose topics Ensure creates; default [default]
	Brokers     []string // host:port; required
	Partitions  int      // of a queue's topic when it is created; default 24
	Replication int      // of a topic when it is created; default 1

	TLS       *tls.Config // of every connection; nil: none
	Mechanism string      // of authentication: SCRAM-SHA-512 (default) or SCRAM-SHA-256
	Username  string      // empty: no authentication
	Password  string

	SessionTimeout time.Duration // after which a dead consumer's partitions move; default 6 s
	Heartbeat      time.Duration // also about how long a new member waits; default min(SessionTimeout/10, 500 ms)

	// Now is this process's estimate of the database's clock. Each hint carries the moment of its publishing by this clock,
	// for Backlog to compare. Default time.Now.
	Now     func() time.Time
	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // nil: none
}

const (
	maxTopicPartitions = 1e4 // more must be a typing error
	maxNameBytes       = 120 // of a namespace or queue: a topic's name may have 249 bytes
)

// topicPattern matches the names that Kafka accepts for topics.
var topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (c Config) withDefaults() Config {
	if len(c.Queues) == 0 {
		c.Queues = []string{"default"}
	}
	c.Partitions = cmp.Or(c.Partitions, 24)
	c.Replication = cmp.Or(c.Replication, 1)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 6*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, min(c.SessionTimeout/10, 500*time.Millisecond))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate refuses a configuration that can't work, naming the key. It checks the values after their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{checkName("namespace", c.Namespace)}
	if parts := strings.Split(c.Namespace, "."); len(parts) > 1 && slices.Contains(parts, "q") {
		errs = append(errs, fmt.Errorf("namespace: %q has a part q, so that its topics could be those of the namespace before it", c.Namespace))
	}
	for _, q := range c.Queues {
		errs = append(errs, checkName("queues", q))
	}
	for _, b := range []struct {
		key           string
		got, low, top int64
	}{
		{"kafka.partitions", int64(c.Partitions), 1, maxTopicPartitions},
		{"kafka.replication", int64(c.Replication), 1, 32},
		{"kafka.session_timeout in ms", c.SessionTimeout.Milliseconds(), 100, 30 * 60 * 1000},
		{"kafka heartbeat in ms", c.Heartbeat.Milliseconds(), 10, c.SessionTimeout.Milliseconds() / 3},
	} {
		if b.got < b.low || b.got > b.top {
			errs = append(errs, fmt.Errorf("%s: %d is not within %d and %d", b.key, b.got, b.low, b.top))
		}
	}
	return errors.Join(errs...)
}

func checkName(key, s string) error {
	if len(s) > maxNameBytes || !topicPattern.MatchString(s) {
		return fmt.Errorf("%s: %q must be 1 to %d characters of A-Z a-z 0-9 . _ -", key, s, maxNameBytes)
	}
	return nil
}
