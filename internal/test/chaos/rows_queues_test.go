package chaos_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const queueTasks = 2000

// comingQueues are added one after the other; one of them twice.
var comingQueues = []string{"coupons", "pushes", "coupons"}

func queuesRow() entry {
	return entry{
		n: 93, fault: fmt.Sprintf("%d queues that are added, used and retired while the game goes on, one of them twice, their worker killed", len(comingQueues)-1),
		alone: true, setup: setup{worker: "./internal/test/chaos/poison", late: time.Second},
		run: queuesComeAndGo,
	}
}

// queuesComeAndGo adds queues, runs tasks of theirs with a worker that is killed meanwhile, and retires them once they are not used. No
// process of the game is started anew, and no task of the game may be more than a second late for it.
func queuesComeAndGo(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_limited (task_id CHAR(36) NOT NULL, at DATETIME(3) NOT NULL) ENGINE=InnoDB`)
	from := d.clock()
	says := func(verb, name, want string) bool {
		t.Helper()
		_, out, complaint := d.Tool(t, "queue", verb, name)
		return strings.Contains(out+complaint, want)
	}
	for i, name := range comingQueues {
		if !says("add", name, "is added") {
			t.Fatalf("queue %s can't be added", name)
		}
		w := d.seat(t, "worker", len(d.workers))
		d.restart(t, w, "DUETIME_WORKER__QUEUES="+name)
		d.tenantTasks(t, name, i, 100, queueTasks/100, "2000 + seq MOD 4000")
		ran := func() int { return d.ranOf(t, i) }
		d.await(t, "half of the tasks of a queue", time.Minute, func() bool { return ran() >= queueTasks/2 })
		pipelinetest.Must(t, w.Kill())
		d.restart(t, w, "DUETIME_WORKER__QUEUES="+name)
		d.await(t, "the tasks of a queue", time.Minute, func() bool { return ran() >= queueTasks })
		if !says("retire", name, "is used by") {
			t.Errorf("queue %s is retired while its worker lives", name)
		}
		w.Stop(t)
		d.await(t, "the killed worker to be known as such", time.Minute, func() bool { return says("retire", name, "is retired") })
	}
	if last := d.lastLate(t, from); last.at != 0 {
		t.Errorf("a task of the game was more than a second late:%s", d.story(t, last.task, from))
	}
	if n := d.count(t, `SELECT COUNT(*) - COUNT(DISTINCT task_id) FROM chaos_limited`); n != 0 {
		t.Errorf("%d effects too many", n)
	}
	if n := d.count(t, `SELECT COUNT(*) FROM chaos_limited`); n != queueTasks*len(comingQueues) {
		t.Errorf("%d effects of %d tasks", n, queueTasks*len(comingQueues))
	}
}
