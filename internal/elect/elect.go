package elect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// ErrCandidate is the answer to a second Lead for a name of one elector: one function per name and elector runs at a
// time.
var ErrCandidate = errors.New("already a candidate")

// Epochs is the durable counter of each name. It must survive a wiped ZooKeeper, so it is in the database. Every method
// must honour ctx and be safe for concurrent use.
type Epochs interface {
	// Take raises the counter by one, durably, and returns the new value.
	Take(ctx context.Context, name string) (int64, error)
	// TakeAbove raises the counter above both itself and stored, durably, and returns the new value.
	TakeAbove(ctx context.Context, name string, stored int64) (int64, error)
	// Current returns the counter; 0 if nobody has taken an epoch for name.
	Current(ctx context.Context, name string) (int64, error)
}

// Config sets up an elector. Zero values take the defaults named at each field.
type Config struct {
	// Servers are host:port of the ensemble; the port defaults to 2181. Names are resolved at each connection.
	Servers []string
	// SessionTimeout is the timeout to ask for (default 6 s). The server clamps it to 2–20 of its ticks.
	SessionTimeout time.Duration
	// TLS is used for every connection; nil: no TLS.
	TLS *tls.Config
	// Username and Password are credentials of the scheme digest: only they may write this elector's nodes. Without a
	// username, everybody may write the nodes.
	Username, Password string
	// Root is the znode under which each name has its queue (default /duetime). It is created when missing.
	Root string
	// StallAfter bounds the time of a term without Progress, and the time to take an epoch (default 5 s).
	StallAfter time.Duration
	// PollEvery is the interval at which a leader reads the counter (default 1 s): one statement.
	PollEvery time.Duration
	// RetryMin is the wait after a resignation (default 500 ms, with jitter). It doubles with each further one in a row.
	RetryMin time.Duration
	// RetryMax bounds that wait (default 30 s).
	RetryMax time.Duration
	// Logger logs the elector's events (default slog.Default()).
	Logger *slog.Logger
	// OnChange is called when a term's function is about to start (leading) and when it has returned. Calls for one name
	// never overlap. OnChange must not block.
	OnChange func(name string, leading bool, epoch int64)
}

func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 6*time.Second)
	c.Root = cmp.Or(c.Root, "/duetime")
	c.StallAfter = cmp.Or(c.StallAfter, 5*time.Second)
	c.PollEvery = cmp.Or(c.PollEvery, time.Second)
	c.RetryMin = cmp.Or(c.RetryMin, 500*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, max(30*time.Second, c.RetryMin))
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.OnChange == nil {
		c.OnChange = func(string, bool, int64) {}
	}
	return c
}

// Validate refuses values that can't work, after defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, bound := range []struct {
		field    string
		got, min time.Duration
	}{
		{"SessionTimeout", c.SessionTimeout, time.Millisecond},
		{"StallAfter", c.StallAfter, 10 * time.Millisecond},
		{"PollEvery", c.PollEvery, time.Millisecond},
		{"RetryMin", c.RetryMin, time.Millisecond},
		{"RetryMax", c.RetryMax, c.RetryMin},
	} {
		if bound.got < bound.min {
			return fmt.Errorf("%s %s: below %s", bound.field, bound.got, bound.min)
		}
	}
	if !strings.HasPrefix(c.Root, "/") || c.Root == "/" || strings.HasSuffix(c.Root, "/") || strings.Contains(c.Root, "//") {
		return fmt.Errorf("znode root %q: want an absolute znode path such as /duetime", c.Root)
	}
	return nil
}

// leadFunc is the caller's function, which does the leader's work.
type leadFunc = func(ctx context.Context, term *Term) error
