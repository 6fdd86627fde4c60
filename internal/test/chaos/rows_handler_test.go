package chaos_test

import (
	"testing"
	"time"
)

func handlerRows() []entry {
	poisoned := setup{worker: "./internal/test/chaos/poison", rules: []string{"DUETIME_WORKER__HANDLER_TIMEOUT=5s"}}
	return []entry{
		{n: 50, fault: "a handler that kills its connection", setup: poisoned, alone: true, run: cutter},
		{n: 51, fault: "a handler stopped by the server's limit", setup: poisoned, alone: true, run: limited},
	}
}

// cutter has tasks whose handler ends the connection of its transaction in each call.
func cutter(t *testing.T, d *drill) {
	t.Helper()
	d.beside(t, "KILL of its own connection", "chaos.cut", 1)
	d.beside(t, "a table of its own that is full", "chaos.full", 1)
	d.outsideOnce(t)
}

// limited has tasks whose handler the server stops: a statement that takes too long, and a transaction idle for too long.
func limited(t *testing.T, d *drill) {
	t.Helper()
	d.beside(t, "a statement beyond the server's limit", "chaos.long", 3)
	d.beside(t, "a transaction idle for too long", "chaos.idle", 1)
}

// beside plays n tasks of a kind that always fails, which must be dead after their three attempts, and compares the lag of
// all others meanwhile with that of as long a time before.
func (d *drill) beside(t *testing.T, name, kind string, n int) {
	t.Helper()
	d.leave.deadMayBe = true
	const apart = 10 * time.Second
	before := d.clock()
	for d.clock() < before+apart.Milliseconds() {
		time.Sleep(100 * time.Millisecond)
	}
	from := d.clock()
	d.fault(t, name, 10*time.Second, func() {
		d.plant(t, kind, kind, n, 3)
		d.await(t, "the tasks of "+kind+" to be dead", 2*time.Minute, func() bool { return d.inState(t, kind, dead) == n })
	})
	to := d.clock()
	if charged := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = ? AND attempt = 3`, kind); charged != n {
		t.Errorf("%d of %d tasks of %s are dead after their 3 attempts", charged, n, kind)
	}
	calm, stirred := d.lagsWithin(t, before, from), d.lagsWithin(t, from, to)
	healthy, beside := rank(calm, 99), rank(stirred, 99)
	d.note(t, "%s: lag p99 of %d neighbours %v in %v, of %d in as long a time before %v", name, len(stirred), beside,
		time.Duration(to-from)*time.Millisecond, len(calm), healthy)
	if beside > max(2*healthy, late)+d.slack { // below late nobody feels it
		t.Errorf("%s: lag p99 of the neighbours %v, want at most twice the %v without", name, beside, healthy)
	}
}

// outsideOnce has an outside handler whose transaction is lost behind its back in each call: it is charged for each.
func (d *drill) outsideOnce(t *testing.T) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_mails (task_id CHAR(36) NOT NULL) ENGINE=InnoDB`)
	d.fault(t, "an outside handler whose transaction is lost", 10*time.Second, func() {
		d.plant(t, "chaos.mail", "mail", 1, 3)
		d.await(t, "the mail to be dead", 2*time.Minute, func() bool { return d.inState(t, "chaos.mail", dead) == 1 })
	})
	if mails := d.count(t, `SELECT COUNT(*) FROM chaos_mails`); mails != 3 {
		t.Errorf("%d mails in 3 attempts", mails)
	}
	if charged := d.count(t, `SELECT attempt FROM duetime_tasks WHERE kind = 'chaos.mail'`); charged != 3 {
		t.Errorf("the mail is dead after %d attempts, want 3", charged)
	}
}
