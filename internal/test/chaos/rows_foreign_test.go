package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func foreignRows() []entry {
	tolerant := setup{worker: "./internal/test/chaos/poison", rules: []string{"DUETIME_KAFKA__PARTITIONS=8"}}
	return []entry{
		{n: 40, fault: "a removed kind with 3,000 tasks due", setup: tolerant, alone: true, run: removedKind},
		{n: 41, fault: "rows inserted by hand that no limit of ours likes", setup: tolerant, alone: true, run: unliked},
	}
}

// insertLike inserts n rows of a kind by plain SQL; columns and values come besides those that every row must have.
const insertLike = `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, max_attempts, payload, created_at, updated_at)
	SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, ?, ?, CRC32(?) MOD shards, at + ?, at + ?, ?, '{}', at, at
	FROM duetime_layout, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS at) AS clock, `

// removedKind plants tasks that came due ten minutes ago, and whose kind no worker has any more. Once each was looked at they
// must leave the pipeline alone.
func removedKind(t *testing.T, d *drill) {
	t.Helper()
	const n, ago, window = 3000, -600_000, 30 * time.Second
	d.fault(t, "a removed kind", 10*time.Second, func() {
		d.exec(t, insertLike+pipelinetest.Numbers(1, n), "chaos.removed", "removed", "default", "removed", ago, ago, 3)
		d.await(t, "a look at each", 3*time.Minute, func() bool {
			return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.removed' AND version > 1 AND last_error <> ''`) == n
		})
	})
	versions := func() int {
		return d.count(t, `SELECT CAST(SUM(version) AS SIGNED) FROM duetime_tasks WHERE kind = 'chaos.removed'`)
	}
	from, before := time.Now(), versions()
	for time.Since(from) < window {
		time.Sleep(time.Second) // while the game goes on
	}
	rate := float64(versions()-before) / time.Since(from).Seconds()
	d.note(t, "%d tasks of a kind that nobody handles: %.1f transitions a second, ten minutes after their time", n, rate)
	if rate >= 20 {
		t.Errorf("%.1f transitions a second, want less than 20", rate)
	}
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.removed' AND (state <> 0 OR attempt <> 0)`); n > 0 {
		t.Errorf("%d of them were charged or ended", n)
	}
	d.exec(t, `UPDATE duetime_tasks SET state = 2, version = version + 1, finished_at = run_at, updated_at = run_at WHERE kind = 'chaos.removed'`)
}

// unliked plants what the columns take and the library refuses. Each row ends, here dead with a reason, and the index agrees
// with the rows afterwards (see finish).
func unliked(t *testing.T, d *drill) {
	t.Helper()
	d.leave.deadMayBe = true
	planted := 0
	plant := func(kind, owner, queue string, dueIn int64) {
		planted++
		d.exec(t, insertLike+pipelinetest.Numbers(1, 1), kind, owner, queue, owner, dueIn, dueIn, 1)
	}
	const kind = "chaos.panic"
	const before1970, beyond2039 = -2_000_000_000_000, 1_000_000_000_000_000
	d.fault(t, "rows that no limit likes", 10*time.Second, func() {
		plant(kind, "{6F9619FF-8B86-D011-B42D-00CF4FC964FF}", "default", 2000)
		plant(kind, strings.Repeat("玩", 64), "default", 2000)
		plant(kind, "", "default", 2000)
		plant(kind, " unliked\n", "default", 2000)
		plant(kind, "unliked-queue", "no such:queue", 2000)
		plant(kind, "unliked-queue", "unheard-of", 2000)
		plant(kind, "unliked-queue", "", 2000)
		plant("Mahlzeit beendet!", "unliked-kind", "default", 2000)
		plant("", "unliked-kind", "default", 2000)
		plant(kind, "unliked-time", "default", before1970)
		plant(kind, "unliked-time", "default", beyond2039)
		plant(kind, "unliked-time", "default", -86_400_000)
		d.exec(t, strings.Replace(insertLike, "UNHEX(REPLACE(UUID(), '-', ''))", "UNHEX(REPEAT('00', 16))", 1)+pipelinetest.Numbers(1, 1),
			kind, "unliked-id", "default", "unliked-id", 2000, 2000, 1)
		planted++
		d.await(t, "an end of each", 2*time.Minute, func() bool { return d.unlikedIn(t, "state = 3 AND last_error <> ''") == planted })
	})
	if n := d.unlikedIn(t, "state = 0"); n > 0 {
		t.Errorf("%d of %d rows never fired and did not end: %s", n, planted, d.text(t, `SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ',
			HEX(id), QUOTE(kind), QUOTE(queue), QUOTE(owner), due_at, run_at, attempt, version, updated_at, QUOTE(last_error)) SEPARATOR '; '), '')
			FROM duetime_tasks WHERE state = 0 AND kind IN ('chaos.panic', 'Mahlzeit beendet!', '')`))
	}
}

// unlikedIn counts the planted rows.
func (w *world) unlikedIn(t *testing.T, condition string) int {
	t.Helper()
	return w.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind IN ('chaos.panic', 'Mahlzeit beendet!', '') AND `+condition)
}
