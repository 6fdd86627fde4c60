package index

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Key returns the name of one of the shard's keys.
func (x *Index) Key(shard int, name string) string { return x.shardKey(shard, name) }

// SetPutUntil sets the moment before which a task must be due to be put.
func (x *Index) SetPutUntil(until time.Time) {
	x.putUntil = func(context.Context) time.Time { return until }
}

// IsOOM reports whether Redis is at its maxmemory and refused to take more.
func IsOOM(err error) bool { return says(err, []string{"OOM"}) }

// Encode returns a task's member.
func Encode(t task.Task) string { return encode(t) }

// Decode reads a member.
func Decode(member string, score float64) protocol.Entry { return decode(member, score) }
