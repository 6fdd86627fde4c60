package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	bulkTasks = 50_000
	bulkShift = 2 * time.Hour
)

func bulkRow() entry {
	return entry{
		n: 80, fault: fmt.Sprintf("bulk shift of %d tasks while the daemon is killed twice", bulkTasks), alone: true, run: bulkGoesOn,
	}
}

// bulkGoesOn plants tasks that are due far off, has them shifted, and kills the daemon while it shifts them. Each is shifted
// once, with one line of its history, and none of the game's is.
func bulkGoesOn(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(CONCAT('01982000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.far', owner, 'default', CRC32(owner) MOD shards,
		       at + 90000000 + seq, at + 90000000 + seq, at + 90000000 + seq, at, at
		FROM duetime_layout, (
			SELECT seq, CONCAT('bulk-', seq MOD 1000) AS owner, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 AS at
			FROM `+pipelinetest.Numbers(1, bulkTasks)+`) AS spread`) // the payload tells when it was due at first
	began := time.Now()
	args := []string{"bulk", "shift", "--kind", "chaos.far", "--by", bulkShift.String(), "--yes"}
	if code, out := d.Duetime(t, args...); code != 0 {
		t.Fatalf("%v: exit code %d, said %s", args, code, out)
	}
	changed := func() int { return d.count(t, `SELECT changed FROM duetime_operations`) }
	for _, part := range []int{bulkTasks / 5, bulkTasks / 2} {
		d.await(t, fmt.Sprintf("%d tasks to be shifted", part), 5*time.Minute, func() bool { return changed() >= part })
		d.fault(t, fmt.Sprintf("daemon killed after %d", part), 15*time.Second, func() {
			pipelinetest.Must(t, d.daemon.Kill())
			time.Sleep(3 * time.Second)
			d.restart(t, d.daemon)
		})
		if changed() == bulkTasks {
			t.Error("the operation was over before the daemon was killed")
		}
	}
	d.await(t, "the operation to be done", 10*time.Minute, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_operations WHERE state = 3`) == 1
	})
	d.note(t, "%d tasks shifted in %v beside %d calls a second", changed(), time.Since(began).Round(time.Second), d.crowd.rate)
	for what, query := range map[string]string{
		"tasks shifted once": `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.far' AND version = 2
			AND due_at - CAST(payload AS SIGNED) = ` + fmt.Sprint(bulkShift.Milliseconds()),
		"tasks with one line": `SELECT COUNT(*) FROM (SELECT task FROM duetime_history WHERE detail LIKE '%, operation %'
			GROUP BY task HAVING COUNT(*) = 1) AS one`,
		"lines about the operation":  `SELECT COUNT(*) FROM duetime_history WHERE detail LIKE '%, operation %'`,
		"tasks counted as shifted":   `SELECT changed FROM duetime_operations`,
		"tasks counted by a preview": `SELECT matched FROM duetime_operations`,
	} {
		if n := d.count(t, query); n != bulkTasks {
			t.Errorf("%s: %d, want %d", what, n, bulkTasks)
		}
	}
}
