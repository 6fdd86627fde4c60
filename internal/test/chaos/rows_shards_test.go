package chaos_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// shardRows are about one shard, or one owner, of which the others must not notice anything.
func shardRows() []entry {
	return []entry{
		migrationRow(),
		{n: 77, fault: "shards 16 to 64 to 16 while a leader, the daemon and Redis are killed", run: shardsChanged},
		{
			n: 78, fault: "index.horizon taken away and set again while the daemon and Redis are killed", run: horizonChanged,
			setup: setup{rules: []string{"DUETIME_INDEX__HORIZON=" + horizon.String()}},
		},
		{
			n: 61, fault: "an owner of a million tasks", alone: true, run: whale,
			setup: setup{mysql: []string{"--innodb-buffer-pool-size=2G"}},
		},
	}
}

// migrationRow moves a shard's slot to another node, and stays half-way: its due set is there, its owners' sets are not.
func migrationRow() entry {
	var cluster *pipelinetest.RedisCluster
	return entry{
		n: 60, fault: "a slot under migration while a game is played",
		setup: setup{rules: []string{"DUETIME_REDIS__MODE=cluster"}, servers: func(t *testing.T, w *world) {
			t.Helper()
			cluster = pipelinetest.OwnRedisCluster(t)
			w.Redis = strings.Join(cluster.Addrs(), ",")
		}},
		run: func(t *testing.T, d *drill) {
			t.Helper()
			d.fault(t, "slot under migration", 15*time.Second, func() {
				migration, err := cluster.BeginMigration("duetime:{0}:due", func(key string) bool { return strings.HasSuffix(key, ":due") })
				pipelinetest.Must(t, err)
				time.Sleep(10 * time.Second) // the length of the migration
				const waiting = `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - 2000 AND shard `
				d.note(t, "%d tasks of the slot's shard waited when it had moved", d.count(t, waiting+`= 0`))
				if n := d.count(t, waiting+`<> 0`); n > 0 && d.slack == 0 {
					t.Errorf("%d tasks of other shards are more than 2 s late", n)
				}
				pipelinetest.Must(t, migration.End())
			})
		},
	}
}

const (
	whaleOwner = "whale"
	whaleTasks = 1_000_000
)

// whale plants an owner with a million tasks, has the index rebuilt with it, takes some of it away, and wants neither lists nor
// audits of it to hold anybody up.
func whale(t *testing.T, d *drill) {
	t.Helper()
	for from := 0; from < whaleTasks; from += 100_000 {
		d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(CONCAT('01981000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.far', '`+whaleOwner+`', 'default',
			       CRC32('`+whaleOwner+`') MOD shards, at + 90000000 + seq, at + 90000000 + seq, '{}', at, at
			FROM duetime_layout, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 AS at) AS clock, `+
			pipelinetest.Numbers(from+1, from+100_000))
	}
	rebuilt := d.daemon.Says("rebuild ended")
	d.fault(t, "FLUSHALL with the owner's million pending", 10*time.Second+whaleTasks*time.Second/50_000, func() {
		d.inRedis(t, func(r *redis.Client) error { return r.FlushAll(t.Context()).Err() })
		d.await(t, "the rebuild", 4*time.Minute, func() bool { return d.indexed(t, "-inf", "+inf") >= whaleTasks })
	})
	d.await(t, "the daemon to be through with it", 4*time.Minute, func() bool { return d.daemon.Says("rebuild ended") > rebuilt })
	d.inRedis(t, func(r *redis.Client) error { return r.ConfigSet(t.Context(), "slowlog-log-slower-than", "20000").Err() })
	d.inRedis(t, func(r *redis.Client) error { return r.ConfigSet(t.Context(), "slowlog-max-len", "1000").Err() })
	d.inRedis(t, func(r *redis.Client) error { return r.SlowLogReset(t.Context()).Err() })
	d.listWhale(t)
	shard := d.count(t, `SELECT CRC32('`+whaleOwner+`') MOD shards FROM duetime_layout`)
	due, owned := fmt.Sprintf("duetime:{%d}:due", shard), fmt.Sprintf("duetime:{%d}:owner:%s", shard, whaleOwner)
	d.fault(t, "entries of the owner taken away", 10*time.Second, func() {
		d.inRedis(t, func(r *redis.Client) error {
			return r.ZRemRangeByRank(t.Context(), owned, whaleTasks/2, whaleTasks/2+100).Err()
		})
		d.inRedis(t, func(r *redis.Client) error { return r.ZRem(t.Context(), due, d.firstMeal(t, r, due)).Err() }) // a sweep finds it, and has all audited
	})
	d.await(t, "the audit to mend the owner's list", 15*time.Minute, func() (whole bool) {
		d.inRedis(t, func(r *redis.Client) error {
			n, err := r.ZCard(t.Context(), owned).Result()
			whole = n == whaleTasks
			return err
		})
		return whole
	})
	d.inRedis(t, func(r *redis.Client) error { return shortBeside(t, d, r, owned) })
}

// shortBeside wants no command of the slow log to have taken a quarter of what reading all of key at once takes. The log's times are
// the wall's: a Redis that waits for a processor is in them, so that a bound in milliseconds would say how busy the machine is.
func shortBeside(t *testing.T, d *drill, r *redis.Client, key string) error {
	t.Helper()
	log, err := r.SlowLogGet(t.Context(), 1000).Result()
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, r.SlowLogReset(t.Context()).Err())
	pipelinetest.Must(t, r.Eval(t.Context(), `return #redis.call('ZRANGE', KEYS[1], 0, -1)`, []string{key}).Err())
	whole, err := r.SlowLogGet(t.Context(), 1000).Result()
	pipelinetest.Must(t, err)
	longest := func(log []redis.SlowLog) redis.SlowLog {
		return slices.MaxFunc(append(log, redis.SlowLog{Args: []string{"none"}}), func(a, b redis.SlowLog) int {
			return cmp.Compare(a.Duration, b.Duration)
		})
	}
	ours, bound := longest(log), longest(whole).Duration/4
	d.note(t, "the longest command, %s, took Redis %v; the owner's list read at once takes %v", ours.Args[0], ours.Duration, 4*bound)
	if ours.Duration > bound {
		t.Errorf("%s took Redis %v, want at most %v", ours.Args[0], ours.Duration, bound)
	}
	return nil
}

// firstMeal is the member of a due set whose loss the sweeps notice first: one of a meal, some seconds ahead.
func (d *drill) firstMeal(t *testing.T, r *redis.Client, due string) string {
	t.Helper()
	members, err := r.ZRangeArgs(t.Context(), redis.ZRangeArgs{
		Key: due, ByScore: true, Start: fmt.Sprint(d.clock() + 3000), Stop: "+inf", Count: 1,
	}).Result()
	pipelinetest.Must(t, err)
	return members[0]
}

// listWhale reads pages of the owner's list through the game.
func (d *drill) listWhale(t *testing.T) {
	t.Helper()
	url, cursor, slowest := d.game.URL(t, "game")+"/v1/owners/"+whaleOwner+"/tasks?limit=100", "", time.Duration(0)
	for range 50 {
		began := time.Now()
		var page struct {
			Source string `json:"source"`
			Tasks  []any  `json:"tasks"`
			Next   string `json:"next"`
		}
		getJSON(t, url+"&cursor="+cursor, &page)
		slowest = max(slowest, time.Since(began))
		if page.Source != "redis" || len(page.Tasks) != 100 || page.Next == "" {
			t.Fatalf("a page from %s of %d tasks, the next one at %q", page.Source, len(page.Tasks), page.Next)
		}
		cursor = page.Next
	}
	d.note(t, "the slowest of 50 pages of the owner's list took %v", slowest.Round(time.Millisecond))
	if limit := 50*time.Millisecond + d.slack; slowest > limit+200*time.Millisecond { // beside a game, on the same cores
		t.Errorf("a page took %v, want %v", slowest, limit)
	}
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	pipelinetest.Must(t, err)
	resp, err := http.DefaultClient.Do(r)
	pipelinetest.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	pipelinetest.Must(t, json.NewDecoder(resp.Body).Decode(into))
}

// farTasks are due after the row's end: a change has that many to move besides the game's.
const farTasks = 30_000

// plantFar inserts tasks that are due a day later.
func (d *drill) plantFar(t *testing.T) {
	t.Helper()
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(CONCAT('01981000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.far', CONCAT('far-', seq MOD 5000), 'default',
		       CRC32(CONCAT('far-', seq MOD 5000)) MOD shards, at + 90000000 + seq, at + 90000000 + seq, '{}', at, at
		FROM duetime_layout, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 AS at) AS clock, `+
		pipelinetest.Numbers(1, farTasks))
}

const horizon = time.Minute

// horizonChanged takes the horizon away and sets it again. Redis holds the far tasks only in between.
func horizonChanged(t *testing.T, d *drill) {
	t.Helper()
	far := func() int { return d.indexed(t, fmt.Sprint(d.clock()+time.Hour.Milliseconds()), "+inf") }
	none := func() bool { return d.count(t, `SELECT horizon_ms + partial FROM duetime_layout`) == 0 }
	set := func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_layout WHERE horizon_ms > 0 AND partial = 1`) == 1
	}
	d.await(t, "the horizon", time.Minute, set)
	d.plantFar(t)
	d.fault(t, "Redis flushed, the daemon killed", 15*time.Second, func() {
		pipelinetest.Must(t, d.daemon.Kill())
		d.inRedis(t, func(r *redis.Client) error { return r.FlushAll(t.Context()).Err() })
		d.restart(t, d.daemon)
	})
	if n := far(); n != 0 {
		t.Errorf("Redis holds %d tasks beyond the horizon", n)
	}
	pipelinetest.Must(t, d.daemon.Kill())
	d.restart(t, d.daemon, "DUETIME_INDEX__HORIZON=0s")
	d.await(t, "far tasks to come into the index", 2*time.Minute, func() bool { return far() > farTasks/10 })
	d.fault(t, "the daemon killed while it fills the index", 15*time.Second, func() {
		pipelinetest.Must(t, d.daemon.Kill())
		d.restart(t, d.daemon, "DUETIME_INDEX__HORIZON=0s")
	})
	d.await(t, "the index to be complete", 2*time.Minute, none)
	if n := far(); n != farTasks {
		t.Errorf("Redis holds %d far tasks, want all %d", n, farTasks)
	}
	pipelinetest.Must(t, d.daemon.Kill())
	d.restart(t, d.daemon)
	d.await(t, "the horizon", 2*time.Minute, set)
	d.fault(t, "Redis killed while far entries are removed", 15*time.Second, func() {
		pipelinetest.Must(t, d.redis.Kill())
		time.Sleep(5 * time.Second) // the length of the outage
		pipelinetest.Must(t, d.redis.Start())
	})
	d.await(t, "far entries to be gone", 3*time.Minute, func() bool { return far() == 0 })
}

// shardsChanged grows and shrinks the number of shards, and kills a part of the pipeline in the middle of each change.
func shardsChanged(t *testing.T, d *drill) {
	t.Helper()
	d.plantFar(t)
	was := d.count(t, `SELECT shards FROM duetime_layout`)
	for _, step := range []struct {
		name, verb string
		shards     int
		kill       func() (start func())
	}{
		{"grown, the leader killed", "grow", 64, func() func() {
			leader, _ := d.leader(t)
			pipelinetest.Must(t, leader.Kill())
			return func() { d.restart(t, leader) }
		}},
		{"shrunk, the daemon killed", "shrink", was, func() func() {
			pipelinetest.Must(t, d.daemon.Kill())
			return func() { d.restart(t, d.daemon) }
		}},
		{"grown again, Redis killed", "grow", 64, func() func() {
			pipelinetest.Must(t, d.redis.Kill())
			return func() { pipelinetest.Must(t, d.redis.Start()) }
		}},
	} {
		began := time.Now()
		if code, out := d.Duetime(t, "shard", step.verb, fmt.Sprint(step.shards), "--yes"); code != 0 {
			t.Fatalf("%s: exit code %d, said %s", step.name, code, out)
		}
		d.await(t, "rows to move", 2*time.Minute, func() bool { return d.count(t, `SELECT moved FROM duetime_layout`) > farTasks/10 })
		d.fault(t, step.name, 30*time.Second, func() {
			start := step.kill()
			time.Sleep(5 * time.Second) // the length of the outage
			start()
		})
		d.await(t, "the change to be over", 5*time.Minute, func() bool { return d.count(t, `SELECT shards_from FROM duetime_layout`) == 0 })
		if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks, duetime_layout WHERE state IN (0, 3) AND shard <> CRC32(owner) MOD shards`); n != 0 {
			t.Errorf("%s: %d rows are not in their place at the end", step.name, n)
		}
		d.note(t, "%s: %d rows moved in %v", step.name, d.count(t, `SELECT moved FROM duetime_layout`), time.Since(began).Round(time.Second))
	}
}
