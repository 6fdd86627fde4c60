package broker

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

// Config says which brokers a Client speaks to, and how. All fields are required except those whose comment names a
// default.
type Config struct {
	Addrs []string // host:port

	TLS       *tls.Config // of every connection; nil: none
	Mechanism string      // of authentication: SCRAM-SHA-512 (default) or SCRAM-SHA-256
	Username  string      // empty: no authentication
	Password  string

	SessionTimeout time.Duration // after which a dead member's partitions move
	Heartbeat      time.Duration // also about how long a new member waits

	Topics []Topic // that Ensure creates
	// Partition places a message with a key in a topic of n partitions. Messages without a key go to the partitions in turn.
	Partition func(key []byte, n int) int

	// Readers cut longer values. They keep the value of one header, unless it is longer, and drop all others.
	MaxValueBytes  int
	KeptHeader     string
	MaxHeaderBytes int

	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Topic describes a topic to create. An existing topic is not changed.
type Topic struct {
	Name        string
	Partitions  int
	Replication int
	Retention   time.Duration
}

// Header is a header of a message.
type Header = kafka.Header

// Message is what Produce sends.
type Message struct {
	Key     []byte // nil: any partition will do
	Value   []byte
	Headers []Header
}

// Record is a message as it was read from Kafka.
type Record struct {
	Partition int
	Offset    int64
	Value     []byte // at most Config.MaxValueBytes
	Header    string // the value of Config.KeptHeader; empty without it
}
