package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	limitedTasks = 10_000
	limitedRate  = 200 // a second
	limitedQueue = "limited"
)

func rateRow() entry {
	return entry{
		n: 81, fault: fmt.Sprintf("%d tasks due in a queue of %d/s with four workers, one of them killed", limitedTasks, limitedRate), alone: true,
		setup: setup{
			worker: "./internal/test/chaos/poison", workers: 4, rate: 100, // the machine is busy with four workers
			config: fmt.Sprintf("queues: [default, {name: %s, rate: %d/s}]\n", limitedQueue, limitedRate),
		},
		run: rateIsKept,
	}
}

// rateIsKept lets a backlog drain at the rate of its queue, and kills a worker meanwhile. Over any ten seconds after the first the
// calls are at most 5 % above the rate, and by half a second's calls that a busy machine made late; the game's tasks, in the other
// queue, are on time but for the kill. How far they fall below it is noted: a busy machine calls less, and limit's TestRateIsKept
// bounds both on a clock of its own.
func rateIsKept(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_limited (task_id CHAR(36) NOT NULL, at DATETIME(3) NOT NULL) ENGINE=InnoDB`)
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(CONCAT('01982000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.limited', owner, '`+limitedQueue+`',
		       CRC32(owner) MOD shards, at + 10000, at + 10000, '{}', at, at
		FROM duetime_layout, (
			SELECT seq, CONCAT('limited-', seq MOD 1000) AS owner, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS at
			FROM `+pipelinetest.Numbers(1, limitedTasks)+`) AS spread`)
	ran := func() int { return d.count(t, `SELECT COUNT(*) FROM chaos_limited`) }
	d.await(t, "a fifth to have run", time.Minute, func() bool { return ran() >= limitedTasks/5 })
	d.fault(t, "worker killed", 10*time.Second, func() {
		pipelinetest.Must(t, d.workers[0].Kill())
		time.Sleep(8 * time.Second)
		d.restart(t, d.workers[0])
	})
	d.await(t, "all to have run", 2*time.Minute, func() bool { return ran() >= limitedTasks })
	if once := d.count(t, `SELECT COUNT(DISTINCT task_id) FROM chaos_limited`); once != limitedTasks || ran() != limitedTasks {
		t.Errorf("%d effects of %d tasks, want one of each of %d", ran(), once, limitedTasks)
	}
	at := d.numbers(t, `SELECT CAST(UNIX_TIMESTAMP(at) * 1000 AS SIGNED) FROM chaos_limited ORDER BY at`)
	fewest, most := perTenSeconds(at)
	d.note(t, "the longest time without a call: %v", longestPause(at))
	t.Logf("calls in each second: %v", perSecond(at))
	d.note(t, "%.0f to %.0f calls a second over any ten seconds of a queue of %d/s", float64(fewest)/10, float64(most)/10, limitedRate)
	if want := 10*limitedRate*105/100 + limitedRate/2; most > want {
		t.Errorf("%d calls in ten seconds, want at most %d", most, want)
	}
}

// perTenSeconds returns the fewest and the most of the moments, in ms, within any ten seconds after the first second.
func perTenSeconds(at []int64) (fewest, most int) {
	const span = 10_000
	fewest = len(at)
	for from := at[0] + 1000; from+span <= at[len(at)-1]; from += 100 {
		first, _ := slices.BinarySearch(at, from)
		end, _ := slices.BinarySearch(at, from+span)
		fewest, most = min(fewest, end-first), max(most, end-first)
	}
	return fewest, most
}

func perSecond(at []int64) []int {
	counts := make([]int, (at[len(at)-1]-at[0])/1000+1)
	for _, ms := range at {
		counts[(ms-at[0])/1000]++
	}
	return counts
}

func longestPause(at []int64) (longest time.Duration) {
	for i := 1; i < len(at); i++ {
		longest = max(longest, time.Duration(at[i]-at[i-1])*time.Millisecond)
	}
	return longest
}

// numbers reads a column.
func (w *world) numbers(t *testing.T, query string) (all []int64) {
	t.Helper()
	rows, err := w.db.QueryContext(t.Context(), query)
	pipelinetest.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int64
		pipelinetest.Must(t, rows.Scan(&n))
		all = append(all, n)
	}
	pipelinetest.Must(t, rows.Err())
	return all
}
