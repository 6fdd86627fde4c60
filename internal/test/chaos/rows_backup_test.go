package chaos_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// backupAge is how much older the restored MySQL is than Redis, Kafka and what the players were told.
const backupAge = 5 * time.Second

// backupRestored puts MySQL back to what it was 5 s ago. Of these seconds stay entries and hints of tasks that there are
// no more, rows that wait though their effects came, versions newer than the row's, and an epoch above MySQL's: with that
// the next leader begins.
func backupRestored(t *testing.T, d *drill) {
	t.Helper()
	d.awaitPets(t)
	var epoch int64
	d.fault(t, "restored", 10*time.Second, func() { epoch = d.fallBack(t) })
	time.Sleep(d.setup.meal) // until no entry is left of a version that MySQL forgot: a put below it waits for the sweep
	leader, _ := d.leader(t)
	d.fault(t, "the next leader", zkSession+time.Second, func() { pipelinetest.Must(t, leader.Kill()) })
	d.restart(t, leader)
	d.await(t, "the next leader's epoch to rise above all", zkSession+10*time.Second+d.slack, func() bool { return d.epoch(t, "event") > epoch })
	time.Sleep(d.setup.meal) // until what was fed meanwhile has come due
}

// awaitPets waits until every pet is made: an id that a restored MySQL gives once more would be two players' pet.
func (d *drill) awaitPets(t *testing.T) {
	t.Helper()
	pipelinetest.Await(t, "all pets to be made", func() bool {
		calls, _ := d.crowd.all()
		n := 0
		for _, c := range calls {
			if c.op == created && c.acked() {
				n++
			}
		}
		return n >= d.setup.pets
	})
}

// fallBack changes the leader twice between the backup and its restore, and returns the epoch that this came to.
func (d *drill) fallBack(t *testing.T) int64 {
	t.Helper()
	taken := time.Now()          // what was answered before stands in the backup
	saved := d.epoch(t, "event") // what the restore brings back: read afterwards, a leader may have raised it already
	backup, err := d.mysql.Snapshot()
	pipelinetest.Must(t, err)
	for range 2 {
		leader, _ := d.leader(t)
		leader.Stop(t)
		d.restart(t, leader)
	}
	time.Sleep(time.Until(taken.Add(backupAge)))
	now, epoch := d.clock(), d.epoch(t, "event")
	ate := d.ateBefore(t, now)
	if saved >= epoch {
		t.Errorf("MySQL's epoch is %d, and was %d in the backup, want it to fall back", epoch, saved)
	}
	pipelinetest.Must(t, d.mysql.Kill())
	gone := d.forget(taken, time.Now()) // what is asked for from now on meets the old state
	pipelinetest.Must(t, d.mysql.Restore(backup))
	ate -= d.ateBefore(t, now)
	d.note(t, "the restore took back %d acknowledged calls and %d effects", gone, ate)
	if gone == 0 || ate == 0 {
		t.Errorf("%d acknowledged calls and %d effects were taken back, want some", gone, ate)
	}
	return epoch
}

// forget tells the oracle that acknowledgements between the two moments may be gone, and counts those so far.
func (d *drill) forget(from, to time.Time) (gone int) {
	before := d.leave.forget
	d.leave.forget = func(c call) bool {
		return c.ended.After(from) && c.began.Before(to) || before != nil && before(c)
	}
	calls, _ := d.crowd.all()
	for _, c := range calls {
		if c.acked() && c.ended.After(from) {
			gone++
		}
	}
	return gone
}

// ateBefore counts the effects that came before a moment on the database's clock.
func (d *drill) ateBefore(t *testing.T, at int64) int {
	t.Helper()
	return d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished' AND at_ms < ?`, at)
}
