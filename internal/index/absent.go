package index

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Absent returns the index of a process without Redis: each call fails as if Redis were away.
func Absent() *Index {
	client := redis.NewClient(options(Config{Addrs: []string{"absent"}}).Simple())
	client.AddHook(absent{})
	return &Index{scripts: newScripts(false), client: client, now: time.Now}
}

var errAbsent = &net.OpError{Op: "dial", Err: errors.New("this process has no index")}

// absent answers every command. A dialer that fails would make the library log each call.
type absent struct{}

func (absent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (absent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(errAbsent)
		return errAbsent
	}
}

func (absent) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errAbsent)
		}
		return errAbsent
	}
}
