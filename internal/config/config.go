// Package config owns the one configuration file of all processes: its keys, their defaults and their limits.
//
// It promises that a Config returned by Load holds every key, that no key or override was silently ignored, and that the
// combination can work. Each error is one line and names the key, the value and the limit. The package never opens a
// connection, never logs, and never shows a password.
package config

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// DefaultPath is the configuration file of a process without --config.
const DefaultPath = "configs/duetime.yaml"

// maxHeartbeat lets a consumer group notice a new member quickly, even if its session is long.
const maxHeartbeat = 500 * time.Millisecond

// Config is duetime's whole configuration, one field for each key. Default returns the defaults, Load reads the file. A
// program's own keys are in a Section.
type Config struct {
	Namespace string   `key:"namespace" doc:"prefix of Redis keys, topics, groups and znodes; one namespace is one MySQL schema"`
	Queues    []string `key:"queues" doc:"queues that this deployment always has, one topic and one consumer group each, beside those of duetime queue add; an item is a name, or {name, rate: 200/s, concurrency: 20, owner_rate: 5/s} with limits over all workers"`
	Shards    int      `key:"shards" doc:"shards of the Redis index, 1 to 1024; used by the first migrate, later a different value is ignored with a warning"`

	// Limits bound what all workers of a queue do together: the handler calls in a time, and the transactions at once. In the
	// file they stand with their queues.
	Limits map[string]task.Limit `key:"-"`

	MySQL     MySQL     `key:"mysql"`
	Redis     Redis     `key:"redis"`
	Index     Index     `key:"index"`
	Kafka     Kafka     `key:"kafka"`
	ZooKeeper ZooKeeper `key:"zookeeper"`
	Log       Log       `key:"log"`
	Trace     Trace     `key:"trace"`
	Event     Event     `key:"event"`
	Worker    Worker    `key:"worker"`
	Daemon    Daemon    `key:"daemon"`
	PProf     PProf     `key:"pprof"`
}

// MySQL is the connection to the database that holds the rows.
type MySQL struct {
	DSN          DSN    `key:"dsn" doc:"user:password@tcp(host:port)/schema; duetime adds the parameters that it needs"`
	PasswordFile string `key:"password_file" doc:"file with the user's password, where mysql.dsn has none"`
	MaxOpen      int    `key:"max_open" doc:"connections that a process opens at most, 4 to 1000, beside those of worker.concurrency"`
	TLS          TLS    `key:"tls"`
}

// Redis is the connection to the index.
type Redis struct {
	Mode         string   `key:"mode" doc:"standalone, sentinel or cluster"`
	Addrs        []string `key:"addrs" doc:"host:port of the server, of the sentinels, or of some nodes of the cluster"`
	MasterName   string   `key:"master_name" doc:"name of the master, in mode sentinel only"`
	Username     string   `key:"username" doc:"ACL user; empty is Redis's default user"`
	Password     Secret   `key:"password" doc:"password of the user; empty is none"`
	PasswordFile string   `key:"password_file" doc:"file with the password, instead of redis.password"`

	SentinelUsername     string `key:"sentinel_username" doc:"ACL user at the sentinels, which have users of their own, in mode sentinel only; empty is the default user"`
	SentinelPassword     Secret `key:"sentinel_password" doc:"password of redis.sentinel_username; empty is none"`
	SentinelPasswordFile string `key:"sentinel_password_file" doc:"file with the password, instead of redis.sentinel_password"`

	TLS TLS `key:"tls"`
}

// Index says what stands in Redis.
type Index struct {
	Horizon time.Duration `key:"horizon" doc:"how far ahead tasks stand in Redis, 1m to 87600h; 0s is all of them. The daemon reads it and tells the others"`
}

// Kafka is the connection to the brokers that carry hints, and the shape of the topics that migrate creates.
type Kafka struct {
	Brokers        []string      `key:"brokers" doc:"host:port of some brokers"`
	Partitions     int           `key:"partitions" doc:"partitions of each topic that migrate creates, 1 to 10000"`
	Replication    int           `key:"replication" doc:"replicas of each topic that migrate creates, 1 to 32; 3 in production"`
	SessionTimeout time.Duration `key:"session_timeout" doc:"time after which a silent worker's partitions go to another worker, 1s to 30m; the broker has limits of its own"`
	SASL           SASL          `key:"sasl"`
	TLS            TLS           `key:"tls"`
}

// SASL is our user at Kafka.
type SASL struct {
	Mechanism    string `key:"mechanism" doc:"SCRAM-SHA-512 or SCRAM-SHA-256, as the brokers have it"`
	Username     string `key:"username" doc:"user of the mechanism; empty is no authentication"`
	Password     Secret `key:"password" doc:"password of the user"`
	PasswordFile string `key:"password_file" doc:"file with the password, instead of kafka.sasl.password"`
}

// Heartbeat is the interval of a worker's heartbeats to its group: a tenth of the session, at most half a second.
func (k Kafka) Heartbeat() time.Duration {
	return min(k.SessionTimeout/10, maxHeartbeat)
}

// ZooKeeper is the connection to the ensemble that elects leaders.
type ZooKeeper struct {
	Servers        []string      `key:"servers" doc:"host:port of the ensemble's servers"`
	SessionTimeout time.Duration `key:"session_timeout" doc:"time after which a silent leader is replaced, 100ms to 10m; the server rounds it to 2 to 20 of its ticks, and ends the session up to one tick later"`
	Username       string        `key:"username" doc:"user of the scheme digest, who alone may write duetime's nodes; empty is none: then everybody may write them"`
	Password       Secret        `key:"password" doc:"password of the user"`
	PasswordFile   string        `key:"password_file" doc:"file with the password, instead of zookeeper.password"`
	TLS            TLS           `key:"tls"`
}

// TLS says which servers we trust on one link, and which certificate we show.
type TLS struct {
	CAFile   string `key:"ca_file" doc:"PEM file of the authorities that sign the server's certificate, or system for this machine's authorities; empty is no TLS"`
	CertFile string `key:"cert_file" doc:"PEM file of the client's certificate, if the server requires one"`
	KeyFile  string `key:"key_file" doc:"PEM file of the key of the client's certificate"`
}

// Log says what a process writes to its standard error.
type Log struct {
	Level  string `key:"level" doc:"debug, info, warn or error"`
	Format string `key:"format" doc:"json or text"`
}

// Handler returns a handler of slog that writes to w as the configuration says.
func (l Log) Handler(w io.Writer) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "json":
		return slog.NewJSONHandler(w, options), nil
	case "text":
		return slog.NewTextHandler(w, options), nil
	}
	return nil, fmt.Errorf("log.format: %q is neither json nor text", l.Format)
}

// Trace says where traces go: to an OpenTelemetry collector, by OTLP over HTTP.
type Trace struct {
	Endpoint string  `key:"endpoint" doc:"http:// or https:// and host:port of an OpenTelemetry collector that takes OTLP over HTTP; empty is off"`
	Sample   float64 `key:"sample" doc:"share of the calls and hints that are traced, 0 to 1; a task that a traced call scheduled is always traced"`
}

// Event configures the event process, which publishes hints.
type Event struct {
	Admin string        `key:"admin" form:"addr" doc:"host:port of /livez, /readyz and /metrics; empty is off, without a host it is loopback"`
	Lead  time.Duration `key:"lead" doc:"how far ahead of its time a hint is sent, 0 (off) to 1s; up to three times as far so that hints share requests, and up to 2s where many are due at once"`
}

// Worker configures the process that runs handlers.
type Worker struct {
	Admin          string        `key:"admin" form:"addr" doc:"as event.admin"`
	Queues         []string      `key:"queues" doc:"queues whose tasks this process runs; empty is the queues of all kinds that it has handlers for"`
	Concurrency    int           `key:"concurrency" doc:"batches that run at once in each queue, and as many single tasks, 1 to 256; each needs a MySQL connection"`
	Replicas       int           `key:"replicas" doc:"the most workers that run at once, up to 10000, such as KEDA's maxReplicaCount: a worker warns at its start if they may open more connections than MySQL's max_connections; 0 is unknown"`
	Batch          int           `key:"batch" doc:"tasks in one transaction, 1 to 1000"`
	HandlerTimeout time.Duration `key:"handler_timeout" doc:"the longest that one call of a handler may take, 10ms to 1h; task.Timeout gives a kind less"`
	Drain          time.Duration `key:"drain" doc:"how long running handlers may go on after a SIGTERM before they are rolled back, worker.handler_timeout to 1h; 0s means 8s, whatever worker.handler_timeout is. The process needs up to 2s more"`
	Late           time.Duration `key:"late" doc:"how late a task may be before workers look for it in MySQL themselves, 100ms to 1h; 0s turns this off, and tasks then wait for Redis and Kafka"`
}

// Daemon configures the process that repairs the index.
type Daemon struct {
	Admin     string        `key:"admin" form:"addr" doc:"as event.admin"`
	Lookahead time.Duration `key:"lookahead" doc:"rows due within this time must stand in Redis, 0 (none) to 24h"`
	Grace     time.Duration `key:"grace" doc:"a pending row this long past its time is overdue, 10ms to 1h"`
	Interval  time.Duration `key:"interval" doc:"time between two sweeps, 10ms to 1h"`
	Retention time.Duration `key:"retention" doc:"how long finished rows are kept, 1s to 87600h; never less than half a minute"`

	RetentionByKind Retentions `key:"retention_by_kind" doc:"the same for done and cancelled tasks of some kinds, 1m to 87600h, such as {session.ping: 1h}; dead tasks stay for daemon.retention"`

	Witness bool `key:"witness" doc:"the daemon that leads schedules and runs about one task a second of its own, in a queue of its own, and metrics count broken promises"`
}

// PProf configures profiles of a running process.
type PProf struct {
	Token     Secret `key:"token" doc:"bearer token, of 16 characters or more, that opens /debug/pprof/ on the admin addresses; empty is off"`
	TokenFile string `key:"token_file" doc:"file with the token, instead of pprof.token"`
}

// Default returns the Config of one machine with every server on its usual port. The caller owns its slices.
func Default() Config {
	return Config{
		Namespace: "duetime",
		Queues:    []string{"default"},
		Shards:    16,
		MySQL:     MySQL{DSN: "root@tcp(127.0.0.1:3306)/duetime", MaxOpen: 32},
		Redis:     Redis{Mode: "standalone", Addrs: []string{"127.0.0.1:6379"}},
		Kafka: Kafka{
			Brokers: []string{"127.0.0.1:9092"}, Partitions: 24, Replication: 1, SessionTimeout: 6 * time.Second,
			SASL: SASL{Mechanism: "SCRAM-SHA-512"},
		},
		ZooKeeper: ZooKeeper{Servers: []string{"127.0.0.1:2181"}, SessionTimeout: 6 * time.Second},
		Log:       Log{Level: "info", Format: "json"},
		Trace:     Trace{Sample: 1},
		Event:     Event{Lead: 50 * time.Millisecond},
		Worker:    Worker{Queues: []string{}, Concurrency: 4, Batch: 100, HandlerTimeout: 10 * time.Second, Late: time.Second},
		Daemon: Daemon{
			Lookahead: time.Minute, Grace: 2 * time.Second, Interval: 2 * time.Second, Retention: 168 * time.Hour, RetentionByKind: Retentions{},
		},
	}
}
