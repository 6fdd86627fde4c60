package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func aloneRows() []entry {
	redis, kafka, processes := part{"Redis", killRedis}, part{"Kafka", killKafka}, part{"ZooKeeper, both event processes, the daemon", killLeaders}
	poisoned := setup{worker: "./internal/test/chaos/poison"}
	return []entry{
		{n: 71, fault: "Redis dead for 60 s: tasks fire on time by MySQL and the workers alone", run: aloneWithout(redis)},
		{n: 72, fault: "Kafka dead for 60 s, likewise", run: aloneWithout(kafka)},
		{n: 73, fault: "Redis and Kafka dead for 60 s, likewise", run: aloneWithout(redis, kafka)},
		{n: 74, fault: "ZooKeeper, both event processes and the daemon dead for 60 s, likewise", run: aloneWithout(processes)},
		{n: 75, fault: "Redis, Kafka, ZooKeeper, event processes and daemon dead for 60 s, likewise", run: aloneWithout(redis, kafka, processes)},
		{n: 84, fault: fmt.Sprintf("a snapshot held while %d tasks end, Redis dead for %v meanwhile", endedTasks, snapshotFor), run: snapshotHeld},
		{n: 76, fault: "a handler that kills its process, while nothing brings hints", setup: poisoned, alone: true, run: killerAlone},
	}
}

// Of tasks that are due while workers are alone with MySQL.
const (
	aloneFor     = 60 * time.Second
	aloneNoticed = 3 * time.Second // from the fault's begin
	aloneP99     = 250 * time.Millisecond
	aloneMax     = 2500 * time.Millisecond
)

// part is something that workers can do without.
type part struct {
	name string
	kill func(t *testing.T, d *drill) (start func())
}

func killRedis(t *testing.T, d *drill) func() {
	t.Helper()
	pipelinetest.Must(t, d.redis.Kill())
	return func() { pipelinetest.Must(t, d.redis.Start()) }
}

func killKafka(t *testing.T, d *drill) func() {
	t.Helper()
	pipelinetest.Must(t, d.kafka.Kill())
	return func() { pipelinetest.Must(t, d.kafka.Start()) }
}

func killLeaders(t *testing.T, d *drill) func() {
	t.Helper()
	pipelinetest.Must(t, d.zookeeper.Kill())
	seats := append([]*seat{d.daemon}, d.events...)
	for _, s := range seats {
		pipelinetest.Must(t, s.Kill())
	}
	return func() {
		pipelinetest.Must(t, d.zookeeper.Start())
		for _, s := range seats {
			d.restart(t, s)
		}
	}
}

// aloneWithout takes the parts away for a minute, and wants tasks on time meanwhile.
func aloneWithout(parts ...part) func(*testing.T, *drill) {
	return func(t *testing.T, d *drill) {
		t.Helper()
		name := ""
		for _, p := range parts {
			name += ", " + p.name
		}
		var from, to int64
		d.fault(t, name[2:]+" dead", hintsAgain, func() {
			from = d.clock()
			var starts []func()
			for _, p := range parts {
				starts = append(starts, p.kill(t, d))
			}
			time.Sleep(aloneFor) // the length of the outage
			to = d.clock()
			for _, start := range starts {
				start()
			}
		})
		d.punctual(t, from, to)
	}
}

// punctual wants tasks that were due in a time without hints to be late by little.
func (d *drill) punctual(t *testing.T, from, to int64) {
	t.Helper()
	var all, noticed []time.Duration
	for _, m := range d.look(t).meals {
		if !m.ate() || m.due < from || m.due > to {
			continue
		}
		all = append(all, m.lag())
		if m.due >= from+aloneNoticed.Milliseconds() {
			noticed = append(noticed, m.lag())
		}
	}
	slices.Sort(all)
	slices.Sort(noticed)
	p99, most := rank(noticed, 99), rank(noticed, 100)
	d.note(t, "%d tasks were due meanwhile, lag max %v; of the %d that were due %v after the begin: p50 %v, p99 %v, max %v",
		len(all), rank(all, 100), len(noticed), aloneNoticed, rank(noticed, 50), p99, most)
	if len(noticed) < 1000 {
		t.Errorf("only %d tasks were due meanwhile", len(noticed))
	}
	if p99 > aloneP99+d.slack || most > aloneMax+d.slack {
		t.Errorf("tasks due without hints: lag p99 %v, max %v; want at most %v and %v", p99, most, aloneP99, aloneMax)
	}
}

// killerAlone has tasks whose handler ends its process, and that only looks find: they must be dead after their attempts, and no
// other task be charged for them more than once.
func killerAlone(t *testing.T, d *drill) {
	t.Helper()
	d.leave.deadMayBe = true
	d.fault(t, "os.Exit in a handler, Redis and Kafka dead", hintsAgain, func() {
		startRedis, startKafka := killRedis(t, d), killKafka(t, d)
		d.plant(t, "chaos.exit", "killer", 2, 3)
		d.await(t, "the killers to be dead", 3*time.Minute, func() bool { return d.inState(t, "chaos.exit", dead) == 2 })
		startRedis()
		startKafka()
	})
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.exit' AND attempt = 3`); n != 2 {
		t.Errorf("%d of 2 tasks that kill their process are dead after their 3 attempts", n)
	}
	// An innocent task is charged before the run that a killer ends, and before the one that it ends itself.
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind <> 'chaos.exit' AND attempt > 2`); n != 0 {
		t.Errorf("%d innocent tasks were charged for killers more than once", n)
	}
}

const (
	endedTasks  = 500_000 // as at 1,000 a second for eight minutes
	snapshotFor = 40 * time.Second
)

// snapshotHeld has Redis dead twice. The second time somebody's transaction keeps MySQL from forgetting tasks that ended, and looks must
// not step over them: tasks are about as late as the first time.
func snapshotHeld(t *testing.T, d *drill) {
	t.Helper()
	p99 := func(name string) time.Duration {
		t.Helper()
		var from, to int64
		d.fault(t, name, hintsAgain, func() {
			from = d.clock() + aloneNoticed.Milliseconds()
			start := killRedis(t, d)
			time.Sleep(snapshotFor) // the length of the outage
			to = d.clock()
			start()
		})
		lags := d.lagsWithin(t, from, to)
		d.note(t, "%s: %d tasks, lag p50 %v, p99 %v, max %v", name, len(lags), rank(lags, 50), rank(lags, 99), rank(lags, 100))
		return rank(lags, 99)
	}
	without := p99("Redis dead")
	c, err := d.db.Conn(t.Context())
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, c.Close()) }()
	for _, statement := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		_, err := c.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	d.endMany(t)
	with := p99("Redis dead, a snapshot held")
	if limit := 3*without + aloneP99 + d.slack; with > limit {
		t.Errorf("lag p99 is %v while a snapshot is held, and %v without; want at most %v", with, without, limit)
	}
	_, err = c.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
	pipelinetest.Must(t, err)
}

// endMany has tasks of the hour before come and go, unseen by anybody: each leaves its entry in the index of pending tasks.
func (d *drill) endMany(t *testing.T) {
	t.Helper()
	const part = 50_000
	for from := 1; from < endedTasks; from += part {
		tx, err := d.db.BeginTx(t.Context(), nil)
		pipelinetest.Must(t, err)
		_, err = tx.ExecContext(t.Context(), `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(CONCAT('01981000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.ended', CONCAT('ended-', seq), 'default', 0, ms, ms, '{}', ms, ms
			FROM (SELECT seq, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 + seq * 6 AS ms FROM `+
			pipelinetest.Numbers(from, from+part-1)+`) AS ended`)
		pipelinetest.Must(t, err)
		id := func(n int) string { return fmt.Sprintf("01981000000070008000%012X", n) }
		_, err = tx.ExecContext(t.Context(), `DELETE FROM duetime_tasks WHERE id BETWEEN UNHEX(?) AND UNHEX(?)`, id(from), id(from+part-1))
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, tx.Commit())
	}
}
