package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	tenants    = 200
	tenantRate = 5 // a second
	calmTasks  = 30
	calmEvery  = 300 * time.Millisecond // of one tenant: below its rate
	crowdTasks = 100                    // of one tenant, due at once
	floodTasks = 20_000                 // of another one
)

func ownerRateRow() entry {
	return entry{
		n: 92, alone: true,
		fault: fmt.Sprintf("%d tenants at %d/s each beside one that floods with %d tasks, and a worker killed while all have crowds", tenants, tenantRate, floodTasks),
		setup: setup{
			worker: "./internal/test/chaos/poison", rate: 100,
			config: fmt.Sprintf("queues: [default, {name: %s, owner_rate: %d/s}]\n", limitedQueue, tenantRate),
		},
		run: ownersKeepTheirRates,
	}
}

// ownersKeepTheirRates plays tenants below their rate, first alone and then beside one that floods: these must not be later for it. Then
// each has a crowd, and a worker is killed: each runs at its rate.
func ownersKeepTheirRates(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_limited (task_id CHAR(36) NOT NULL, at DATETIME(3) NOT NULL) ENGINE=InnoDB`)
	alone := d.calm(t, 1)
	d.tenantTasks(t, limitedQueue, 2, 1, floodTasks, "0")
	flooded := d.calm(t, 3)
	d.note(t, "%d tenants at %.1f/s each: lag p99 %v alone, %v beside the flood", tenants, float64(time.Second)/float64(calmEvery), rank(alone, 99), rank(flooded, 99))

	d.tenantTasks(t, limitedQueue, 4, tenants, crowdTasks, "0")
	d.await(t, "a fifth of the crowds to have run", time.Minute, func() bool { return d.ranOf(t, 4) >= tenants*crowdTasks/5 })
	d.fault(t, "worker killed", 10*time.Second, func() {
		pipelinetest.Must(t, d.workers[0].Kill())
		time.Sleep(5 * time.Second)
		d.restart(t, d.workers[0])
	})
	d.await(t, "the crowds to have run", 3*time.Minute, func() bool { return d.ranOf(t, 4) >= tenants*crowdTasks })
	most, fewest := 0, crowdTasks
	for tenant := range tenants {
		at := d.numbers(t, fmt.Sprintf(`SELECT CAST(UNIX_TIMESTAMP(at) * 1000 AS SIGNED) FROM chaos_limited
			JOIN duetime_tasks ON id = UUID_TO_BIN(task_id) WHERE owner = 'tenant-4-%d' ORDER BY at`, tenant))
		few, many := perTenSeconds(at)
		most, fewest = max(most, many), min(fewest, few)
	}
	d.note(t, "%d to %d calls of a tenant over any ten seconds, at %d/s", fewest, most, tenantRate)
	if want := 10*tenantRate*105/100 + tenantRate/2; most > want {
		t.Errorf("%d calls of one tenant in ten seconds, want at most %d", most, want)
	}
	if n := d.count(t, `SELECT COUNT(*) - COUNT(DISTINCT task_id) FROM chaos_limited`); n > 0 { // the flood goes on
		t.Errorf("%d effects too many", n)
	}
	_, err := d.client(t).CancelOwner(t.Context(), "tenant-2-0", "")
	pipelinetest.Must(t, err)
}

// calm plays tenants below their rate, and returns how late their tasks took effect.
func (d *drill) calm(t *testing.T, phase int) (lags []time.Duration) {
	t.Helper()
	d.tenantTasks(t, limitedQueue, phase, tenants, calmTasks, fmt.Sprintf("10000 + FLOOR(seq / %d) * %d + seq MOD %d", tenants, calmEvery.Milliseconds(), calmEvery.Milliseconds()))
	d.await(t, "the tenants' tasks", time.Minute, func() bool { return d.ranOf(t, phase) >= tenants*calmTasks })
	for _, ms := range d.numbers(t, fmt.Sprintf(`SELECT CAST(UNIX_TIMESTAMP(at) * 1000 AS SIGNED) - due_at FROM chaos_limited
		JOIN duetime_tasks ON id = UUID_TO_BIN(task_id) WHERE owner LIKE 'tenant-%d-%%' ORDER BY 1`, phase)) {
		lags = append(lags, time.Duration(ms)*time.Millisecond)
	}
	return lags
}

// tenantTasks inserts tasks of a queue, of tenants of this phase, due after the ms that the expression of seq says.
func (d *drill) tenantTasks(t *testing.T, queue string, phase, tenants, each int, after string) {
	t.Helper()
	d.exec(t, fmt.Sprintf(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(CONCAT('0198200%d000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.limited', owner, '%s',
		       CRC32(owner) MOD shards, at + after_ms, at + after_ms, '{}', at, at
		FROM duetime_layout, (
			SELECT seq, CONCAT('tenant-%d-', seq MOD %d) AS owner, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS at, %s AS after_ms
			FROM %s) AS spread`, phase, queue, phase, tenants, after, pipelinetest.Numbers(0, tenants*each-1)))
}

// ranOf counts the effects of a phase's tenants.
func (d *drill) ranOf(t *testing.T, phase int) int {
	t.Helper()
	return d.count(t, `SELECT COUNT(*) FROM chaos_limited WHERE task_id LIKE ?`, fmt.Sprintf("0198200%d-%%", phase))
}
