package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const leavingTasks = 50_000

func endedRow() entry {
	return entry{
		n: 94, fault: fmt.Sprintf("%d tasks that ended an hour ago leave for a table of their own while the daemon is killed three times", leavingTasks),
		run: endedLeave,
	}
}

// endedLeave plants tasks that ended an hour ago, and kills the daemon while it moves them. Each stands in
// one table, whenever it is looked for.
func endedLeave(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, state, version, created_at, updated_at, finished_at)
		SELECT UNHEX(CONCAT('01982000000070008000', LPAD(HEX(seq), 12, '0'))), 'chaos.ended', owner, 'default', CRC32(owner) MOD shards,
		       at, at, '1', 1 + seq MOD 2, 2, at, at, at
		FROM duetime_layout, (
			SELECT seq, CONCAT('ended-', seq MOD 1000) AS owner, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - 3600000 AS at
			FROM `+pipelinetest.Numbers(1, leavingTasks)+`) AS spread`)
	restart := func() { // a daemon that begins looks from the oldest row on
		pipelinetest.Must(t, d.daemon.Kill())
		d.restart(t, d.daemon)
	}
	restart()
	moved := func() int { return d.count(t, `SELECT COUNT(*) FROM duetime_ended WHERE kind = 'chaos.ended'`) }
	for _, part := range []int{leavingTasks / 5, leavingTasks / 2} {
		d.await(t, fmt.Sprintf("%d tasks to move", part), 5*time.Minute, func() bool { return moved() >= part })
		d.fault(t, fmt.Sprintf("daemon killed after %d", part), 15*time.Second, func() {
			restart()
			if moved() == leavingTasks {
				t.Error("all had moved before the daemon was killed")
			}
		})
	}
	d.await(t, "all to move", 10*time.Minute, func() bool { return moved() == leavingTasks })
	for what, query := range map[string]string{
		"in both tables": `SELECT COUNT(*) FROM duetime_tasks JOIN duetime_ended USING (id)`,
		"still pending":  `SELECT COUNT(*) FROM duetime_ended WHERE state NOT IN (1, 2)`,
		"not moved":      `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.ended'`,
	} {
		if n := d.count(t, query); n != 0 {
			t.Errorf("%d tasks are %s", n, what)
		}
	}
}
