package chaos_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func redisRows() []entry {
	return []entry{
		{n: 6, fault: "Redis killed, back empty", run: redisKilled},
		{n: 7, fault: "FLUSHALL, a shard deleted, a tenth of the entries removed", run: redisForgets},
		{n: 8, fault: "Redis unreachable for 60 s, 500 ms slow, connections reset", setup: setup{linked: []string{"redis"}}, run: redisFarAway},
		{n: 9, fault: "Redis full", run: redisFull},
	}
}

// inRedis runs commands on the server itself, around all proxies.
func (w *world) inRedis(t *testing.T, do func(r *redis.Client) error) {
	t.Helper()
	r := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	defer func() { _ = r.Close() }()
	pipelinetest.Must(t, do(r))
}

func redisKilled(t *testing.T, d *drill) {
	t.Helper()
	pendingRows := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0`)
	d.fault(t, "empty", 10*time.Second+time.Duration(pendingRows)*time.Second/50_000, func() {
		pipelinetest.Must(t, d.redis.Kill())
		time.Sleep(3 * time.Second) // the length of the outage
		pipelinetest.Must(t, d.redis.Start())
	})
}

func redisForgets(t *testing.T, d *drill) {
	t.Helper()
	ctx := t.Context()
	d.fault(t, "FLUSHALL", 10*time.Second, func() {
		d.inRedis(t, func(r *redis.Client) error { return r.FlushAll(ctx).Err() })
	})
	d.fault(t, "a shard", 10*time.Second, func() {
		d.inRedis(t, func(r *redis.Client) error { return removeShard(t, r, 3) })
	})
	d.fault(t, "a tenth", 10*time.Second, func() {
		d.inRedis(t, func(r *redis.Client) error { return removeSome(t, r, 10) })
	})
}

// removeShard takes all of a shard's memory away, its marker too.
func removeShard(t *testing.T, r *redis.Client, shard int) error {
	t.Helper()
	keys, err := r.Keys(t.Context(), fmt.Sprintf("duetime:{%d}:*", shard)).Result()
	if err == nil && len(keys) < 2 {
		err = fmt.Errorf("shard %d has only the keys %v", shard, keys)
	}
	if err != nil {
		return err
	}
	return r.Del(t.Context(), keys...).Err()
}

// indexed counts the entries of all due sets between two scores, as ZCOUNT takes them. It names the sets: to look for them
// among the keys of a million owners would keep Redis from all else.
func (w *world) indexed(t *testing.T, from, to string) (n int) {
	t.Helper()
	shards := w.count(t, `SELECT shards_ever FROM duetime_layout`)
	w.inRedis(t, func(r *redis.Client) error {
		for shard := range shards {
			entries, err := r.ZCount(t.Context(), fmt.Sprintf("duetime:{%d}:due", shard), from, to).Result()
			if err != nil {
				return err
			}
			n += int(entries)
		}
		return nil
	})
	return n
}

// removeSome takes one of every n entries out of the due sets.
func removeSome(t *testing.T, r *redis.Client, n int) error {
	t.Helper()
	keys, err := r.Keys(t.Context(), "*:due").Result()
	if err != nil {
		return err
	}
	removed := 0
	for _, key := range keys {
		members, err := r.ZRange(t.Context(), key, 0, -1).Result()
		if err != nil {
			return err
		}
		for i := 0; i < len(members); i += n {
			if err := r.ZRem(t.Context(), key, members[i]).Err(); err != nil {
				return err
			}
			removed++
		}
	}
	if removed == 0 {
		return fmt.Errorf("no entry to remove in %v", keys)
	}
	return nil
}

func redisFarAway(t *testing.T, d *drill) {
	t.Helper()
	each := func(do func(*pipelinetest.ToxicProxy)) {
		for _, s := range d.all() {
			do(s.links.redis)
		}
	}
	for _, c := range []struct {
		name string
		long time.Duration
		do   func(*pipelinetest.ToxicProxy)
	}{
		{"unreachable", 60 * time.Second, (*pipelinetest.ToxicProxy).Cut},
		{"slow", 15 * time.Second, func(p *pipelinetest.ToxicProxy) { p.Latency(500 * time.Millisecond) }},
	} {
		d.fault(t, c.name, 10*time.Second, func() {
			began := time.Now()
			each(c.do)
			time.Sleep(c.long) // the length of the outage
			d.wantAccepting(t, c.name, began)
			each((*pipelinetest.ToxicProxy).Heal)
		})
	}
	d.fault(t, "reset", 10*time.Second, func() {
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			each((*pipelinetest.ToxicProxy).Reset)
			time.Sleep(300 * time.Millisecond) // between two resets
		}
		d.wantAccepting(t, "reset", began)
	})
}

// wantAccepting wants every call since then to have been answered by the game's rules, and soon.
func (d *drill) wantAccepting(t *testing.T, name string, since time.Time) {
	t.Helper()
	byStatus, slowest := d.crowd.answers(since, time.Now())
	d.note(t, "Redis %s: answers by status %v, the slowest after %v", name, byStatus, slowest.Round(time.Millisecond))
	for status, n := range byStatus {
		if status != http.StatusOK && status != http.StatusCreated && status != http.StatusConflict {
			t.Errorf("Redis %s: %d answers with status %d", name, n, status)
		}
	}
	if byStatus[http.StatusOK] == 0 || slowest > time.Second+d.slack {
		t.Errorf("Redis %s: %d calls accepted, the slowest answer after %v, want at most 1s", name, byStatus[http.StatusOK], slowest)
	}
}

// redisFull leaves no room for a new entry: what is in the index must still fire, and new tasks do by the sweep.
func redisFull(t *testing.T, d *drill) {
	t.Helper()
	ctx := t.Context()
	refused := func(r *redis.Client) error { return r.Set(ctx, "room", strings.Repeat("x", 100), 0).Err() }
	d.fault(t, "full", 15*time.Second, func() {
		d.inRedis(t, func(r *redis.Client) error {
			used, err := usedMemory(r.Info(ctx, "memory").Val())
			if err != nil {
				return err
			}
			return r.ConfigSet(ctx, "maxmemory", strconv.Itoa(used*9/10)).Err()
		})
		before := d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished'`)
		time.Sleep(10 * time.Second) // the length of the fault
		if n := d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished'`) - before; n < d.setup.pets/10 {
			t.Errorf("only %d effects in 10 s with Redis full", n)
		}
		d.inRedis(t, func(r *redis.Client) error {
			if err := refused(r); err == nil || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("Redis was not full: %v", err)
			}
			return r.ConfigSet(ctx, "maxmemory", "0").Err()
		})
	})
}

func usedMemory(info string) (int, error) {
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, fmt.Errorf("no used_memory in %q", info)
}
