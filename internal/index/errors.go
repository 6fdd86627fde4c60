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

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// The first words, after ERR if that is there, with which Redis says what stands in the way.
var (
	awayWords = []string{
		"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK",
		"MISCONF", // writes are refused for as long as snapshots fail
		"max number of clients reached",
	}
	refusedWords = []string{
		"WRONGPASS", "NOAUTH", "NOPERM", "invalid password", "AUTH", "Client sent AUTH",
		"Protocol error: unauthenticated", // what a long command gets before AUTH
	}
)

// Away reports whether err says that Redis could not be reached, or is up but can't serve yet: worth trying again
// later. What was sent may have run. Of several shards' errors each must say so.
func Away(err error) bool {
	if err == nil || IsRefused(err) {
		return false
	}
	if shards, ok := task.FailedShards(err); ok {
		return !slices.ContainsFunc(slices.Collect(maps.Values(shards)), func(err error) bool { return !Away(err) })
	}
	var netErr net.Error
	switch {
	case errors.As(err, &netErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, errNoMaster):
		return true
	default:
		return says(err, awayWords) || unnamed(err)
	}
}

// unnamed knows the client library's own words for "nobody there", which it gives no name.
func unnamed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "redis: cluster has no nodes")
}

// IsRefused reports whether Redis refused the user, the password, or the right to run what was sent, or we don't believe
// the server: no later try with the same configuration will do better.
func IsRefused(err error) bool { return Refusal(err) != nil }

// Refusal returns an error that retrying cannot fix with the names of the keys to look at; nil for all other errors.
func Refusal(err error) error {
	if shards, ok := task.FailedShards(err); ok {
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
