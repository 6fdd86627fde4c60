//go:build cluster

package index_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
)

// TestClusterUsers goes through a cluster as the users of deploy/redis/users.acl.
func TestClusterUsers(t *testing.T) {
	t.Parallel()
	servers := pipelinetest.OwnRedisCluster(t)
	file, err := os.ReadFile("../../deploy/redis/users.acl")
	pipelinetest.Must(t, err)
	namespace := pipelinetest.Namespace(t)
	text := os.Expand(string(file), func(name string) string {
		if name == "NAMESPACE" {
			return namespace
		}
		return "right"
	})
	for _, addr := range servers.Addrs() {
		node := redis.NewClient(&redis.Options{Addr: addr})
		for line := range strings.Lines(text) {
			words := []any{"ACL", "SETUSER"}
			for _, word := range strings.Fields(line)[1:] {
				words = append(words, word)
			}
			if words[2] != "default" { // by which the nodes were introduced
				pipelinetest.Must(t, node.Do(t.Context(), words...).Err())
			}
		}
		pipelinetest.Must(t, node.Close())
	}
	as := func(user string) *index.Index {
		return open(t, index.Config{Namespace: namespace, Mode: index.Cluster, Addrs: servers.Addrs(), Username: "duetime_" + user, Password: "right"})
	}
	game, event, daemon := as("game"), as("event"), as("daemon")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	woken := make(chan time.Time, 1000)
	ended := make(chan error, 1)
	go func() { ended <- event.Wakes(ctx, clusterShards, func(_ int, at time.Time) { woken <- at }) }()
	for range clusterShards { // each is told once that it is connected
		<-woken
	}
	all := spread()
	pipelinetest.Must(t, game.Put(ctx, all))
	for at := range woken {
		if !at.IsZero() {
			break
		}
	}
	claimAll(t, event, all)
	for i, p := range all {
		token, err := daemon.BeginRebuild(ctx, i)
		pipelinetest.Must(t, err)
		_, err = daemon.EndRebuild(ctx, i, token)
		pipelinetest.Must(t, err)
		diff(t, "owners", scanOwners(t, daemon, i), entries(p))
		if _, _, err := worldtest.OwnerEntries(ctx, game, i, p.Owner); err != nil {
			t.Error(err)
		}
		_, place, generation, err := game.OwnerPage(ctx, i, p.Owner, "", "", 1)
		if err != nil || place == "" || generation == "" {
			t.Errorf("first page: goes on at %q in %q, %v", place, generation, err)
		}
		if _, _, _, err := game.OwnerPage(ctx, i, p.Owner, "", place, 1); err != nil {
			t.Errorf("second page: %v", err)
		}
	}
	_, err = daemon.Identity(ctx)
	pipelinetest.Must(t, err)
	_, err = event.Marked(ctx, clusterShards)
	pipelinetest.Must(t, err)
	if err := event.Put(ctx, all); !index.IsRefused(err) {
		t.Errorf("event writes entries: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("wake-ups ended with %v", err)
	}
}
