package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func poisonRows() []entry {
	poisoned := setup{worker: "./internal/test/chaos/poison", rules: []string{"DUETIME_WORKER__HANDLER_TIMEOUT=2s", "DUETIME_KAFKA__PARTITIONS=8"}}
	slow := setup{worker: "./internal/test/chaos/poison", rules: []string{"DUETIME_WORKER__HANDLER_TIMEOUT=20s"}}
	return []entry{
		{n: 23, fault: "poison: panics, deaf handlers, garbage, kinds that nobody handles", setup: poisoned, alone: true, run: poison},
		{n: 26, fault: "SIGTERM with slow handlers, with a grace that is too short and with enough", setup: slow, alone: true, run: impatient},
		{n: 27, fault: "a handler that kills its process", setup: poisoned, alone: true, run: killer},
	}
}

// plant inserts n tasks of a kind by plain SQL, as a service in another language would, due in two seconds.
func (w *world) plant(t *testing.T, kind, owner string, n, attempts int) {
	t.Helper()
	for i := range n {
		w.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, max_attempts, payload, created_at, updated_at)
			SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, ?, 'default', CRC32(?) MOD shards,
			       at + 2000, at + 2000, ?, '{}', at, at
			FROM duetime_layout, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS at) AS clock`,
			kind, fmt.Sprintf("%s-%d", owner, i%2), fmt.Sprintf("%s-%d", owner, i%2), attempts)
	}
}

// inState counts the tasks of a kind.
func (w *world) inState(t *testing.T, kind string, state int) int {
	t.Helper()
	return w.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = ? AND state = ?`, kind, state)
}

// await polls until condition holds, starting workers anew that have ended, as an orchestrator does.
func (d *drill) await(t *testing.T, what string, limit time.Duration, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(100 * time.Millisecond) {
		for _, s := range d.workers {
			if !s.Running() {
				d.start(t, s)
			}
		}
		if time.Now().After(deadline) {
			t.Errorf("waited %v in vain for %s", limit, what)
			return
		}
	}
}

// poison plays with tasks and messages that can't go well. Only those who share a partition with them may feel it.
func poison(t *testing.T, d *drill) {
	t.Helper()
	d.leave.deadMayBe = true
	from := d.clock()
	d.fault(t, "poison", 10*time.Second, func() {
		d.plant(t, "chaos.panic", "poison", 20, 3)
		d.plant(t, "chaos.deaf", "poison", 3, 2)
		d.plant(t, "chaos.unknown", "poison", 20, 3)
		d.garbage(t)
		d.await(t, "the poison to be dead", 2*time.Minute, func() bool {
			return d.inState(t, "chaos.panic", dead) == 20 && d.inState(t, "chaos.deaf", dead) == 3
		})
	})
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.panic' AND attempt = 3`); n != 20 {
		t.Errorf("%d of 20 tasks that panic are dead after their 3 attempts", n)
	}
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.unknown' AND state = 0 AND attempt = 0 AND version > 1`); n != 20 {
		t.Errorf("%d of 20 tasks that nobody handles were armed again, uncharged", n)
	}
	spoiled := map[int]bool{partitionOf("poison-0", 8): true, partitionOf("poison-1", 8): true}
	var lags []time.Duration
	for _, m := range d.look(t).meals {
		if m.ate() && m.due >= from && !spoiled[partitionOf(m.owner, 8)] {
			lags = append(lags, m.lag())
		}
	}
	slices.Sort(lags)
	p99 := rank(lags, 99)
	d.note(t, "%d tasks of other partitions while there was poison: lag p50 %v, p99 %v", len(lags), rank(lags, 50), p99)
	if len(lags) < 100 || p99 > time.Second+d.slack {
		t.Errorf("%d tasks of other partitions, lag p99 %v, want at most 1s", len(lags), p99)
	}
	d.exec(t, `UPDATE duetime_tasks SET state = 2, version = version + 1, finished_at = run_at, updated_at = run_at WHERE kind = 'chaos.unknown'`)
}

// partitionOf is the partition of an owner's hints: the hash that Kafka's own clients know as FNV-1a.
func partitionOf(owner string, partitions int) int {
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	return (&kafka.Hash{}).Balance(kafka.Message{Key: []byte(owner)}, all...)
}

// garbage writes messages that are no hints, and some that are far too long for one, to the partitions of the poison.
func (d *drill) garbage(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(d.kafka.Addr()), Topic: hintTopic, Balancer: &kafka.Hash{}, Transport: transport,
		RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
	}
	defer func() { _ = w.Close() }()
	for i, text := range []string{"", "{", `{"id":"x"}`, "\xff\xfe", "null", "[]", strings.Repeat("{", 10_000), strings.Repeat("x", 900_000)} {
		pipelinetest.Must(t, w.WriteMessages(ctx, kafka.Message{Key: fmt.Appendf(nil, "poison-%d", i%2), Value: []byte(text)}))
	}
}

// impatient stops workers whose handlers take longer than they are left: killed after 2 s, then with all the time that
// they ask for. What was rolled back is not charged, and runs elsewhere.
func impatient(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_effects (task_id CHAR(36) NOT NULL) ENGINE=InnoDB`)
	for _, grace := range []time.Duration{2 * time.Second, 10 * time.Second} {
		d.plant(t, "chaos.slow", "slow", 4, 3)
		d.fault(t, fmt.Sprintf("grace %v", grace), kafkaSession+2*time.Second, func() {
			d.await(t, "slow handlers to run", time.Minute, func() bool {
				return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.slow' AND state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - 500`) > 0
			})
			for _, s := range d.workers {
				pipelinetest.Must(t, s.Term())
			}
			for _, s := range d.workers {
				if grace < 10*time.Second {
					time.Sleep(grace / time.Duration(len(d.workers))) // all the time that it is left
					pipelinetest.Must(t, s.Kill())
				} else if code := s.Wait(t, grace+d.slack); code != 0 {
					t.Errorf("exit code %d after a SIGTERM with enough grace", code)
				}
			}
			for _, s := range d.workers {
				d.restart(t, s)
			}
			d.await(t, "the slow tasks' effects", 2*time.Minute, func() bool {
				return d.inState(t, "chaos.slow", done)%4 == 0 && d.inState(t, "chaos.slow", pending) == 0
			})
		})
	}
	if all, once := d.count(t, `SELECT COUNT(*) FROM chaos_effects`), d.count(t, `SELECT COUNT(DISTINCT task_id) FROM chaos_effects`); all != 8 || once != 8 {
		t.Errorf("%d effects of %d slow tasks, want 8 of 8", all, once)
	}
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.slow' AND attempt > 1`); n != 0 {
		t.Errorf("%d slow tasks were charged more than one attempt", n)
	}
}

// killer has tasks whose handler ends its process: they must be dead after their attempts, and the group serve on.
func killer(t *testing.T, d *drill) {
	t.Helper()
	d.leave.deadMayBe = true
	d.fault(t, "os.Exit in a handler", 10*time.Second, func() {
		d.plant(t, "chaos.exit", "killer", 2, 3)
		d.await(t, "the killers to be dead", 3*time.Minute, func() bool { return d.inState(t, "chaos.exit", dead) == 2 })
	})
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.exit' AND attempt = 3`); n != 2 {
		t.Errorf("%d of 2 tasks that kill their process are dead after their 3 attempts", n)
	}
}
