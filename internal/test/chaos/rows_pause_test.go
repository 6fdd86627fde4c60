package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const (
	pacedTasks = 300 // of one owner
	pacedEvery = 100 * time.Millisecond
	refusesFor = 40 * time.Second
	refusals   = 10 // at most: each worker, and each successor, may meet some before it knows of the pause
)

func pauseRow() entry {
	return entry{
		n: 91, alone: true,
		fault: fmt.Sprintf("an API that refuses %d tasks of one owner for %v, whose handler pauses its key, each worker killed meanwhile", pacedTasks, refusesFor),
		setup: setup{worker: "./internal/test/chaos/poison", rate: 100, late: time.Second}, run: keyIsPaused,
	}
}

// keyIsPaused has tasks become due one by one while their API refuses all calls. The first handlers pause the key: no other is called
// until that moment, which outlives the workers, and then all run once. The game's tasks are on time but for the kills.
func keyIsPaused(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_refuses (until_ms BIGINT NOT NULL) ENGINE=InnoDB`)
	d.exec(t, `CREATE TABLE chaos_refusals (at_ms BIGINT NOT NULL) ENGINE=InnoDB`)
	d.exec(t, `CREATE TABLE chaos_paced (task_id CHAR(36) NOT NULL, at_ms BIGINT NOT NULL) ENGINE=InnoDB`)
	d.exec(t, `INSERT INTO chaos_refuses SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) + ?`, refusesFor.Milliseconds())
	client, kind := d.client(t), task.NewKind[struct{}]("chaos.paced")
	for i := range pacedTasks {
		_, err := client.Schedule(t.Context(), kind.New("paced", struct{}{}, task.In(time.Duration(i)*pacedEvery)))
		pipelinetest.Must(t, err)
	}
	for i, w := range d.workers {
		d.fault(t, fmt.Sprintf("worker %d killed", i+1), 10*time.Second, func() {
			pipelinetest.Must(t, w.Kill())
			time.Sleep(8 * time.Second)
			d.restart(t, w)
		})
	}
	d.await(t, "all to have run", 2*time.Minute, func() bool { return d.count(t, `SELECT COUNT(*) FROM chaos_paced`) >= pacedTasks })
	effects, tasks := d.count(t, `SELECT COUNT(*) FROM chaos_paced`), d.count(t, `SELECT COUNT(DISTINCT task_id) FROM chaos_paced`)
	if effects != pacedTasks || tasks != pacedTasks {
		t.Errorf("%d effects of %d tasks, want one of each of %d", effects, tasks, pacedTasks)
	}
	refused := d.count(t, `SELECT COUNT(*) FROM chaos_refusals`)
	first := time.Duration(d.count(t, `SELECT MIN(at_ms) - MAX(until_ms) FROM chaos_paced, chaos_refuses`)) * time.Millisecond
	last := time.Duration(d.count(t, `SELECT MAX(at_ms) - MAX(until_ms) FROM chaos_paced, chaos_refuses`)) * time.Millisecond
	d.note(t, "%d calls were refused; the first of %d tasks ran %v after the API took calls again, the last one %v", refused, pacedTasks, first, last)
	if refused == 0 || refused > refusals {
		t.Errorf("%d calls were refused, want 1 to %d", refused, refusals)
	}
	if most := time.Second + d.felt + d.slack; first > most { // a pause ends with a whole second
		t.Errorf("the first task ran %v after the pause, want within %v", first, most)
	}
}
