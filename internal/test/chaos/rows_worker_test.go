package chaos_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func workerRows() []entry {
	return []entry{
		{n: 13, fault: "a worker killed and another one added every 3 s", run: workersComeAndGo},
		{
			n: 14, fault: "worker killed before its commit, and between the commit and that of the offsets",
			setup: setup{linked: []string{"kafka"}}, run: workerKilled,
		},
		{n: 15, fault: "worker stopped inside a transaction, past its Kafka session, and past its MySQL session; woken", run: workerStopped},
	}
}

const (
	takeover    = kafkaSession + 2*time.Second // until a silent worker's partitions are served by others
	workerIdle  = 25 * time.Second             // worker.handler_timeout and 15 s: MySQL ends a silent worker's session then
	fewLocks    = 12                           // rows, that is about four pets: whoever calls for one of them waits 2 s
	alreadyDone = `duetime_tasks_settled_total{kind="pet.meal_finished",result="already_done"}`
)

// workersComeAndGo never lets the group rest. With a member that died in each rebalance, most of the time nobody has
// the partitions; once the last one came, all must be served soon.
func workersComeAndGo(t *testing.T, d *drill) {
	t.Helper()
	ate, repeated := d.ate(t), 0
	d.fault(t, "come and go", 10*time.Second, func() {
		for i := range 10 {
			time.Sleep(3 * time.Second) // the pace of the changes
			s := d.workers[i%2]
			repeated += int(s.Metric(t, alreadyDone))
			pipelinetest.Must(t, s.Kill())
			d.start(t, s)
		}
		ate = d.ate(t) - ate
	})
	repeated += d.ofWorkers(t, alreadyDone)
	d.note(t, "workers come and go: %d effects in those 30 s; %d hints came again after their effect", ate, repeated)
	if repeated == 0 {
		t.Error("no worker was killed between its commit and that of the offsets")
	}
}

// workerKilled kills a worker that has written and not committed, and one that has committed its effects and not its
// offsets: the other worker must run the former again and see that the latter are done.
func workerKilled(t *testing.T, d *drill) {
	t.Helper()
	victim, other := d.workers[0], d.workers[1]
	d.nameInMySQL(t, victim)
	d.fault(t, "before the commit", takeover, func() {
		locked := d.stopInside(t, victim)
		pipelinetest.Must(t, victim.Kill())
		d.note(t, "worker killed in a transaction that had %d rows locked", locked)
	})
	d.restart(t, victim)
	d.awaitCalm(t)
	before := other.Metric(t, alreadyDone)
	d.fault(t, "before the offsets' commit", takeover, func() {
		ahead := d.cutUntilAhead(t, victim)
		pipelinetest.Must(t, victim.Kill())
		victim.links.kafka.Heal()
		d.note(t, "worker killed with %d effects committed and their offsets not", ahead)
	})
	pipelinetest.Await(t, "a hint of the killed worker to come again after its effect", func() bool {
		return other.Metric(t, alreadyDone) > before
	})
	d.restart(t, victim)
	d.awaitCalm(t)
}

// cutUntilAhead cuts the worker off from Kafka, upstream, until it has effects whose offsets are not committed, and tells how
// many. The cut lets one fetch be answered; that one is empty where nothing became due just then, and the worker is cut
// off once more, after a while in which it kept its session.
func (d *drill) cutUntilAhead(t *testing.T, s *seat) (ahead int) {
	t.Helper()
	pipelinetest.Await(t, "effects whose offsets are not committed", func() bool {
		cut := d.clock()
		s.links.kafka.CutUpstream()
		for end := time.Now().Add(kafkaSession / 2); ahead == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			ahead = d.effectsAhead(t, cut)
		}
		if ahead == 0 {
			s.links.kafka.Heal()
			d.awaitCalm(t)
		}
		return ahead > 0
	})
	return ahead
}

// awaitCalm waits until no task is late any more.
func (d *drill) awaitCalm(t *testing.T) {
	t.Helper()
	pipelinetest.Await(t, "a quiet world", func() bool {
		n, err := d.overdue(t.Context(), late)
		pipelinetest.Must(t, err)
		return n == 0
	})
}

// effectsAhead counts the effects that were committed since a moment, and more than two seconds ago, and whose hints'
// offsets are still not committed: for so long no worker keeps them back that reaches Kafka, however slow the machine.
func (d *drill) effectsAhead(t *testing.T, since int64) int {
	t.Helper()
	ids := []any{since}
	for _, h := range d.hintsSince(t, d.committed(t)) {
		ids = append(ids, h.ID)
	}
	if len(ids) == 1 {
		return 0
	}
	return d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished' AND at_ms > ?
AND at_ms < UNIX_TIMESTAMP(NOW(3)) * 1000 - 2000 AND task_id IN (?`+strings.Repeat(", ?", len(ids)-2)+`)`, ids...)
}

// nameInMySQL starts the worker anew as a user of MySQL's of its own, by whom its sessions can be told from others.
func (d *drill) nameInMySQL(t *testing.T, s *seat) {
	t.Helper()
	for _, query := range []string{`DROP USER IF EXISTS victim`, `CREATE USER victim`, `GRANT ALL ON *.* TO victim`} {
		d.exec(t, query)
	}
	const key = "DUETIME_MYSQL__DSN="
	dsn := key + d.DSN
	for _, v := range s.env {
		if strings.HasPrefix(v, key) {
			dsn = v
		}
	}
	s.Stop(t)
	d.restart(t, s, strings.Replace(dsn, key+"root@", key+"victim@", 1))
	d.awaitCalm(t)
}

// stopInside stops the worker at a moment in which transactions of its are under way, and tells how many rows they have
// locked, which are few. MySQL has heard all that the worker said, and waits for its next word.
func (d *drill) stopInside(t *testing.T, victim *seat) (locked int) {
	t.Helper()
	for range 200 {
		pipelinetest.Must(t, victim.Freeze())
		time.Sleep(250 * time.Millisecond) // what was on its way is through
		if locked = pipelinetest.IdleLocks(t, d.db, "victim"); locked > 0 && locked <= fewLocks {
			return locked
		}
		pipelinetest.Must(t, victim.Thaw())
		time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond)) // it catches up, and is somewhere in its work
	}
	t.Fatal("the worker was never met inside a transaction")
	return 0
}

// workerStopped freezes a worker that holds locks. While they stand their tasks must wait; all others go to the other
// worker. Woken before MySQL has ended its session the worker commits, as it may: it still has the locks. Woken later it
// learns that its transaction is gone, and that others have run its tasks. In both cases nothing is left to wait for once
// it is awake, so the bound is that of a takeover.
func workerStopped(t *testing.T, d *drill) {
	t.Helper()
	victim := d.workers[0]
	d.nameInMySQL(t, victim)
	d.fault(t, "past its Kafka session", takeover, func() {
		locked := d.stopInside(t, victim)
		d.wantOthersServed(t)
		if now := pipelinetest.IdleLocks(t, d.db, "victim"); now < locked {
			t.Errorf("the stopped worker had %d rows locked and has %d", locked, now)
		}
		d.note(t, "worker woken with %d rows locked", locked)
		pipelinetest.Must(t, victim.Thaw())
	})
	d.awaitCalm(t)
	d.fault(t, "past its MySQL session", takeover, func() {
		d.stopInside(t, victim)
		stopped := time.Now()
		pipelinetest.Await(t, "the stopped worker's tasks to be run by the other one", func() bool {
			n, err := d.overdue(t.Context(), time.Second)
			pipelinetest.Must(t, err)
			return n == 0 && time.Since(stopped) > takeover
		})
		if took, most := time.Since(stopped), workerIdle+10*time.Second+d.slack; took > most {
			t.Errorf("the stopped worker's tasks took effect after %v, want at most %v", took, most)
		}
		if locked := pipelinetest.IdleLocks(t, d.db, "victim"); locked > 0 {
			t.Errorf("the stopped worker has %d rows locked, its tasks can't have been run by others", locked)
		}
		d.note(t, "tasks locked by a stopped worker were free and took effect after %.1f s", time.Since(stopped).Seconds())
		pipelinetest.Must(t, victim.Thaw())
	})
	victim.Stop(t)
	d.restart(t, victim)
}

// wantOthersServed waits until the other worker has all partitions and only what the stopped one has locked is late.
func (d *drill) wantOthersServed(t *testing.T) {
	t.Helper()
	began := time.Now()
	all := fmt.Sprintf(`"msg":"partitions assigned","queue":"default","n":%d`, len(d.topicEnds(t)))
	before := d.workers[1].Says(all)
	pipelinetest.Await(t, "the other worker to have all partitions", func() bool { return d.workers[1].Says(all) > before })
	pipelinetest.Await(t, "all tasks that are not locked to take effect", func() bool { return d.lateAndFree(t) == 0 })
	if took := time.Since(began); took > takeover+d.slack {
		t.Errorf("the other worker served all after %v, want within %v", took, takeover)
	}
}

// lateAndFree counts the late tasks whose rows nobody has locked.
func (d *drill) lateAndFree(t *testing.T) int {
	t.Helper()
	tx, err := d.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	rows, err := tx.QueryContext(t.Context(),
		`SELECT id FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - ? FOR UPDATE SKIP LOCKED`, late.Milliseconds())
	pipelinetest.Must(t, err)
	defer func() { _ = rows.Close() }()
	n := 0
	for rows.Next() {
		n++
	}
	pipelinetest.Must(t, rows.Err())
	return n
}
