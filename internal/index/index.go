package index

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The modes of Redis.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Config says where Redis is and how long to wait for it.
type Config struct {
	Namespace  string      // prefix of all keys and channels; no braces
	Mode       string      // Standalone (the default), Sentinel or Cluster
	MasterName string      // of the master to follow; Sentinel only
	Addrs      []string    // host:port of the server, of the sentinels, or of some cluster nodes
	Username   string      // empty: the default user
	Password   string      // empty: none
	TLS        *tls.Config // of every connection; nil: none
	// SentinelUsername and SentinelPassword are the credentials at the sentinels, which have users of their own; empty:
	// none.
	SentinelUsername, SentinelPassword string
	// PutUntil returns the moment before which a task must be due to be put; zero: any time will do. nil: always zero.
	PutUntil    func(ctx context.Context) time.Time
	Now         func() time.Time // the database's time; nil: the host's
	ReadTimeout time.Duration    // of reading one answer, and of sending; default 500 ms
}

// Index is the index of one namespace in one Redis. Make it by Open.
type Index struct {
	namespace string
	publish   string // PUBLISH, or SPUBLISH in Cluster, where PUBLISH would go to every node
	client    redis.UniversalClient
	sentinels *sentinels // nil in other modes than Sentinel
	scripts   scripts
	putUntil  func(ctx context.Context) time.Time
	now       func() time.Time
}

// Open prepares the client and dials nothing. It refuses a configuration that can't work.
func Open(cfg Config) (*Index, error) {
	if err := checkNamespace(cfg.Namespace); err != nil {
		return nil, err
	}
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("open index: no address of Redis")
	}
	x := &Index{
		namespace: cfg.Namespace, publish: "PUBLISH", scripts: newScripts(), putUntil: cfg.PutUntil, now: time.Now,
	}
	if cfg.Now != nil {
		x.now = cfg.Now
	}
	if err := x.connect(cfg); err != nil {
		return nil, err
	}
	return x, nil
}

// connect makes the client of the mode.
func (x *Index) connect(cfg Config) error {
	o := options(cfg)
	switch cmp.Or(cfg.Mode, Standalone) {
	case Standalone:
		x.client = redis.NewClient(o.Simple())
	case Sentinel:
		if cfg.MasterName == "" {
			return errors.New("open index: sentinel mode needs the master's name")
		}
		simple := o.Simple()
		x.sentinels = newSentinels(cfg, simple)
		simple.Addr, simple.Dialer = cfg.MasterName, x.sentinels.dial
		x.client = redis.NewClient(simple)
	case Cluster:
		x.publish = "SPUBLISH"
		c := o.Cluster()
		// A client is not told that a replica took over from a silent primary. It has to ask often, or the tasks of that
		// primary's shards wait. The library's default is once a minute.
		c.ClusterStateReloadInterval = time.Second
		x.client = redis.NewClusterClient(c)
	default:
		return fmt.Errorf("open index: mode %q must be %s, %s or %s", cfg.Mode, Standalone, Sentinel, Cluster)
	}
	return nil
}

// options sets timeouts that a game's thread can afford. A script of 1000 members takes about 5 ms, so 500 ms without an
// answer means a stalled or lost server. One resend covers a connection that died while it was idle; further resends
// would only make callers wait, although the compensation topic takes their tasks. Contexts' deadlines end all of it
// early.
func options(cfg Config) *redis.UniversalOptions {
	read := cmp.Or(cfg.ReadTimeout, 500*time.Millisecond)
	return &redis.UniversalOptions{
		Addrs: cfg.Addrs, Username: cfg.Username, Password: cfg.Password,
		TLSConfig:             cfg.TLS,
		DialTimeout:           time.Second,
		DialerRetries:         1,
		ReadTimeout:           read,
		WriteTimeout:          read,
		PoolTimeout:           read,
		MaxRetries:            1,
		MinRetryBackoff:       2 * time.Millisecond,
		MaxRetryBackoff:       50 * time.Millisecond,
		MaxRedirects:          3,
		ContextTimeoutEnabled: true,
		// RESP2 has scores as exact text, and needs no HELLO, which an old proxy could refuse.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Close ends all connections. Calls under way fail.
func (x *Index) Close() error {
	err := x.client.Close()
	if x.sentinels != nil {
		err = errors.Join(err, x.sentinels.close())
	}
	if err != nil {
		return fmt.Errorf("close index: %w", err)
	}
	return nil
}

// Ping asks whether Redis answers; in Cluster, whether some node does.
func (x *Index) Ping(ctx context.Context) error {
	if err := x.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	return nil
}

// LogTo sends the client library's log to l, at debug level, instead of to standard error. The library has one log for
// the whole process, so our programs call LogTo at their start, and Open does not.
func LogTo(l *slog.Logger) { redis.SetLogger(clientLog{l}) }

type clientLog struct{ to *slog.Logger }

// Printf implements the library's logger.
func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	if l.to.Enabled(ctx, slog.LevelDebug) {
		l.to.DebugContext(ctx, "redis client", slog.String("err", fmt.Sprintf(format, v...)))
	}
}
