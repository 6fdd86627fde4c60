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

const (
	atOnce  = 100_000   // tasks due at one millisecond
	farOff  = 1_000_000 // tasks pending for a day
	firstID = 1_000_000 // of the planted pets
	planted = "planted-"
	ahead   = 60_000 // ms from the planting of the meals to their end: the daemon has to index them
)

func crowdRows() []entry {
	return []entry{{
		n: 24, fault: "100,000 tasks due at one millisecond, 1,000,000 pending", alone: true, run: allAtOnce,
		// Room for its million rows, and for the redo of a minute: with less it stops again and again to write pages.
		setup: setup{mysql: []string{"--innodb-buffer-pool-size=2G"}, redoLog: "2G"},
	}}
}

// allAtOnce plants what no crowd could ask for in a minute, with SQL, and has the index rebuilt with it. The million is
// an hour old: the daemon would compare each of a million rows that changed just now.
func allAtOnce(t *testing.T, d *drill) {
	t.Helper()
	began := time.Now()
	for from := 0; from < farOff; from += 100_000 {
		d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(CONCAT('01980000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.far', CONCAT('far-', seq), 'default',
			       CRC32(CONCAT('far-', seq)) MOD shards, at + 90000000 + seq, at + 90000000 + seq, '{}', at, at
			FROM duetime_layout, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 AS at) AS clock, `+
			pipelinetest.Numbers(from+1, from+100_000))
	}
	d.note(t, "1,000,000 rows planted in %v", time.Since(began).Round(time.Second))
	rebuilt := d.daemon.Says("rebuild ended")
	d.fault(t, "FLUSHALL with a million pending", 10*time.Second+farOff*time.Second/50_000, func() {
		d.inRedis(t, func(r *redis.Client) error { return r.FlushAll(t.Context()).Err() })
		d.await(t, "the rebuild", 4*time.Minute, func() bool { return d.indexed(t, "-inf", "+inf") >= farOff })
	})
	d.await(t, "the daemon to be through with it", 4*time.Minute, func() bool { return d.daemon.Says("rebuild ended") > rebuilt })
	due := d.plantMeals(t)
	d.await(t, "the planted meals to be indexed", time.Minute, func() bool { return d.indexed(t, fmt.Sprint(due), fmt.Sprint("(", due+1)) == atOnce })
	d.fault(t, "100,000 at once", time.Minute, func() { time.Sleep(time.UnixMilli(due).Sub(d.crowd.now())) })
	var done, last int
	for _, m := range d.look(t).meals {
		if strings.HasPrefix(m.owner, planted) && m.ate() && m.due == due {
			done, last = done+1, max(last, int(m.at-due))
		}
	}
	d.note(t, "%d tasks due at one millisecond took effect within %d ms", done, last)
	if done != atOnce {
		t.Errorf("%d of %d planted tasks took effect", done, atOnce)
	}
}

// plantMeals makes pets that all finish their meals at the same millisecond, and writes down the calls that would have
// made them.
func (d *drill) plantMeals(t *testing.T) (due int64) {
	t.Helper()
	began := time.Now()
	due = d.clock() + ahead
	for from := 0; from < atOnce; from += 20_000 {
		seq := pipelinetest.Numbers(firstID+from, firstID+from+19_999)
		now := d.clock() // as a service would write it: the daemon looks for changes by it
		// The ids are fixed by the pet, so that three statements can name them.
		const uuid = `CONCAT('01990000-0000-7000-8000-', LPAD(HEX(seq), 12, '0'))`
		const owner = `CONCAT('` + planted + `', seq MOD 20000)`
		d.exec(t, `INSERT INTO pets (id, owner, name, food, speedup_cards, autofeed_cards, meal_task_id, meal_source)
			SELECT seq, `+owner+`, 'pet', ?, ?, ?, LOWER(`+uuid+`), 'hand' FROM `+seq, cards-1, cards, cards)
		d.exec(t, `INSERT INTO pet_journal (pet_id, owner, event, task_id, version, due_at_ms, at_ms)
			SELECT seq, `+owner+`, 'fed', LOWER(`+uuid+`), 1, ?, ? FROM `+seq, due, due-ahead)
		d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, subject, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(REPLACE(`+uuid+`, '-', '')), 'pet.meal_finished', `+owner+`, seq, 'default', CRC32(`+owner+`) MOD shards,
			       ?, ?, JSON_OBJECT('pet_id', seq), ?, ? FROM duetime_layout, `+seq, due, due, now, now)
	}
	d.note(t, "100,000 meals planted in %v", time.Since(began).Round(time.Second))
	for i := range atOnce {
		n := firstID + i
		k := call{op: created, owner: planted + strconv.Itoa(n%20000), pet: strconv.Itoa(n), status: http.StatusCreated}
		d.crowd.add(k)
		k.op, k.task, k.version, k.status = fed, fmt.Sprintf("01990000-0000-7000-8000-%012x", n), 1, http.StatusOK
		d.crowd.add(k)
	}
	d.planted += 2 * atOnce
	return due
}
