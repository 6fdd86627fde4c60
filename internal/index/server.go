package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var errNoMaster = errors.New("no master known")

const noEviction = "noeviction"

// Client returns the connection, for keys that are not the index's: an import may read another system's on the same server.
func (x *Index) Client() redis.UniversalClient { return x.client }

// Identity returns the servers' run ids and replication ids. If it changes, a server was restarted or a replica took
// over, and recent writes may be lost. Servers of a cluster that don't answer are left out.
func (x *Index) Identity(ctx context.Context) (string, error) {
	facts, err := x.facts(ctx, []string{"server", "replication"}, "run_id", "master_replid")
	if err != nil && len(facts) == 0 {
		return "", fmt.Errorf("read redis identity: %w", err)
	}
	return strings.Join(facts, " "), nil
}

// Uptime returns for how long the server that was started last has been up; 0 for one that doesn't say. Servers of a cluster that
// don't answer are left out.
func (x *Index) Uptime(ctx context.Context) (time.Duration, error) {
	facts, err := x.facts(ctx, []string{"server"}, "uptime_in_seconds")
	if err != nil && len(facts) == 0 {
		return 0, fmt.Errorf("read redis uptime: %w", err)
	}
	youngest := 0
	for i, fact := range facts {
		if seconds, _ := strconv.Atoi(fact); i == 0 || seconds < youngest {
			youngest = seconds
		}
	}
	return time.Duration(youngest) * time.Second, nil
}

// ClaimNamespace records the deployment as the owner of the namespace's keys if there is no record, and returns the
// owner. For a user that may only read the record, a missing record is no error.
func (x *Index) ClaimNamespace(ctx context.Context, deployment string) (owner string, err error) {
	err = x.client.SetArgs(ctx, x.NamespaceKey(), deployment, redis.SetArgs{Mode: "NX"}).Err()
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOPERM") {
		return "", fmt.Errorf("claim namespace: %w", err)
	}
	owner, err = x.client.Get(ctx, x.NamespaceKey()).Result()
	if errors.Is(err, redis.Nil) {
		return deployment, nil
	}
	if err != nil {
		return "", fmt.Errorf("read whose the namespace is: %w", err)
	}
	return owner, nil
}

// CheckPolicy returns a warning if Redis may evict entries once its memory is full; it is empty if not.
func (x *Index) CheckPolicy(ctx context.Context) (string, error) {
	policies, err := x.facts(ctx, []string{"memory"}, "maxmemory_policy")
	if err != nil {
		return "", fmt.Errorf("read redis memory policy: %w", err)
	}
	for _, p := range policies {
		if p != noEviction {
			return fmt.Sprintf("the server's maxmemory-policy is %s: it must be %s, or a full Redis throws scheduled tasks out",
				p, noEviction), nil
		}
	}
	return "", nil
}

// Evicted counts the keys that each server has evicted since its start, because its memory was full.
func (x *Index) Evicted(ctx context.Context) (int64, error) {
	counts, err := x.facts(ctx, []string{"stats"}, "evicted_keys")
	if err != nil {
		return 0, fmt.Errorf("read redis evictions: %w", err)
	}
	var total int64
	for _, c := range counts {
		n, err := strconv.ParseInt(c, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read redis evictions: %w", err)
		}
		total += n
	}
	return total, nil
}

// facts returns the named fields of INFO from every master, sorted; with an error, from the masters that answered.
func (x *Index) facts(ctx context.Context, sections []string, names ...string) ([]string, error) {
	var mu sync.Mutex
	var all []string
	err := x.eachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, sections...).Result()
		if err != nil {
			return err
		}
		var values []string
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if slices.Contains(names, name) {
				values = append(values, value)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, strings.Join(values, "/"))
		return nil
	})
	slices.Sort(all)
	return all, err
}

// eachMaster runs fn for the server, or for all masters of the cluster at once.
func (x *Index) eachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error {
	switch c := x.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, fn)
	case *redis.Client:
		return fn(ctx, c)
	default:
		return errNoMaster
	}
}

// master returns the client of the server that holds the key.
func (x *Index) master(ctx context.Context, key string) (*redis.Client, error) {
	switch c := x.client.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Client:
		return c, nil
	default:
		return nil, errNoMaster
	}
}
