package imports

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeout and answerTimeout are those of a tool, for which nobody waits: a server that is busy with a long command
// answers later.
const (
	dialTimeout   = 5 * time.Second
	answerTimeout = 10 * time.Second
)

// Dial prepares a client of the Redis at a URL redis://[user@]host:port[/database], or rediss:// for TLS that this machine's
// authorities vouch for. It returns the number of the database, and dials nothing. The URL must not have the password, which
// every user of the machine could read from the command line.
func Dial(url, password string) (client *redis.Client, database int, err error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, 0, errors.New("must be redis://[user@]host:port[/database] or rediss://…") // its own error may quote a password
	}
	if o.Password != "" {
		return nil, 0, errors.New("must not have the password")
	}
	o.Password = password
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, answerTimeout, answerTimeout, answerTimeout
	o.ContextTimeoutEnabled = true
	// As for the index: RESP2 needs no HELLO, which an old server would refuse.
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), o.DB, nil
}
