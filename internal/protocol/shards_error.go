package protocol

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ShardsError says that a call to the index failed in some shards alone: the others took their part. In Redis Cluster a
// node may be away, or a slot under migration, while all other shards serve.
type ShardsError struct {
	Shards map[int]error // what went wrong, by shard; not empty
}

// Error tells of the first shard, and of how many there are more.
func (e *ShardsError) Error() string {
	first := e.Unwrap()[0].Error()
	if n := len(e.Shards) - 1; n > 0 {
		return fmt.Sprintf("%s (and %d more shards)", first, n)
	}
	return first
}

// Unwrap returns the errors in the order of the shards.
func (e *ShardsError) Unwrap() []error {
	all := make([]error, 0, len(e.Shards))
	for _, shard := range slices.Sorted(maps.Keys(e.Shards)) {
		all = append(all, e.Shards[shard])
	}
	return all
}

// FailedShards returns the shards in which the call failed whose error this is; ok is false if it failed as a whole, or
// didn't.
func FailedShards(err error) (shards map[int]error, ok bool) {
	if e, partial := errors.AsType[*ShardsError](err); partial {
		return e.Shards, true
	}
	return nil, false
}
