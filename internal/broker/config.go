package broker

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

// Config says which brokers a Client speaks to, and how. All fields are required but those that name their default.
type Config struct {
	Addrs []string // host:port

	TLS      *tls.Config // of every connection; nil: none
	Username string      // of SCRAM-SHA-512; empty: no authentication
	Password string

	SessionTimeout time.Duration // a dead member's partitions move after it
	Heartbeat      time.Duration // a new member waits about as long

	Topics []Topic // that Ensure creates
	// Partition places a message with a key in a topic of n partitions. Messages without a key go round.
	Partition func(key []byte, n int) int

	// Readers cut longer values, and keep of the headers only the value of one, unless it is longer.
	MaxValueBytes  int
	KeptHeader     string
	MaxHeaderBytes int

	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Topic is a topic as it is created. One that stands is left as it is.
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

// Record is a message as it came out of a log.
type Record struct {
	Partition int
	Offset    int64
	Value     []byte // at most Config.MaxValueBytes
	Header    string // the value of Config.KeptHeader; empty without it
}
