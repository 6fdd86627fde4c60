package index

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/trust"
)

// The first words of Redis's errors, after an optional ERR, by what they mean.
var (
	awayWords = []string{
		"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK",
		"MISCONF", // Redis refuses writes while snapshots fail
		"max number of clients reached",
	}
	refusedWords = []string{
		"WRONGPASS", "NOAUTH", "NOPERM", "invalid password", "AUTH", "Client sent AUTH",
		"Protocol error: unauthenticated", // the answer to a long command before AUTH
	}
)

// Away reports whether err says that Redis could not be reached, or is up but can't serve yet: a later retry may
// succeed. The command may have run. An error of several shards is away if each shard's is.
func Away(err error) bool {
	if err == nil || IsRefused(err) {
		return false
	}
	if shards, ok := protocol.FailedShards(err); ok {
		return !slices.ContainsFunc(slices.Collect(maps.Values(shards)), func(err error) bool { return !Away(err) })
	}
	var netErr net.Error
	switch {
	case errors.As(err, &netErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, errNoMaster):
		return true
	default:
		return says(err, awayWords) || strings.Contains(err.Error(), "redis: cluster has no nodes") // this error has no name
	}
}

// Away is the function Away.
func (x *Index) Away(err error) bool { return Away(err) }

// IsRefused reports whether Redis refused the user, the password, or the right to run the command, or we don't trust the
// server's certificate: every retry with the same configuration will fail too.
func IsRefused(err error) bool { return Refusal(err) != nil }

// Refusal adds the configuration keys to an error that retrying cannot fix; it returns nil for all other errors.
func Refusal(err error) error {
	if shards, ok := protocol.FailedShards(err); ok {
		for _, err := range shards {
			if refusal := Refusal(err); refusal != nil {
				return refusal
			}
		}
		return nil
	}
	switch {
	case trust.Refused(err):
		return &trust.Refusal{Key: "redis.tls.ca_file", Err: err}
	case says(err, refusedWords):
		key := "redis.username or redis.password"
		if _, ok := errors.AsType[*sentinelError](err); ok {
			key = "redis.sentinel_username or redis.sentinel_password"
		}
		return &trust.Refusal{Key: key, Err: err}
	}
	return nil
}

func says(err error, words []string) bool {
	return err != nil && slices.ContainsFunc(words, func(w string) bool { return redis.HasErrorPrefix(err, w) })
}
