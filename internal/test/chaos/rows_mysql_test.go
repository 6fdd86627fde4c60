package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func mysqlRows() []entry {
	return slices.Concat(machineRows(), []entry{
		{n: 16, fault: "MySQL killed and restarted; connections cut inside COMMIT", setup: setup{linked: []string{"mysql"}}, run: mysqlKilled},
		{n: 17, fault: "a hostile transaction on pets and their tasks", run: hostileTransactions},
		{n: 28, fault: "MySQL restored to what it was 5 s before", run: backupRestored},
	})
}

// mysqlKilled kills MySQL in the middle of everything, then takes the answers of COMMITs away from the game and the workers.
func mysqlKilled(t *testing.T, d *drill) {
	t.Helper()
	killed := time.Now()
	resolved := 0
	for kills := 0; resolved == 0; kills++ {
		if kills == 5 {
			t.Fatalf("after %d kills no call was repeated and then acknowledged", kills)
		}
		d.fault(t, "MySQL killed", 10*time.Second, func() {
			d.someDue(t)
			pipelinetest.Must(t, d.mysql.Kill())
			time.Sleep(3 * time.Second) // longer than the programs wait in silence
			pipelinetest.Must(t, d.mysql.Start())
		})
		resolved = d.resolved(killed)
	}
	d.note(t, "%d calls without an answer were acknowledged when repeated", resolved)
	d.fault(t, "cut inside COMMIT", 10*time.Second, func() { d.cutCommits(t) })
	time.Sleep(2 * d.setup.meal) // until what was fed meanwhile has come due, and most seconds had a MySQL to call
}

const lostCommit = "commit without a clear answer" // as the logs say it

// cutCommits swallows what MySQL answers the game and the workers for a moment and breaks their connections, over and
// over, until enough of them had just sent a COMMIT and some of the answers were given again for their keys.
func (d *drill) cutCommits(t *testing.T) {
	t.Helper()
	const wanted = 10
	before := d.game.Says(lostCommit)
	for cuts := 1; ; cuts++ {
		d.someDue(t)
		hit := []*seat{d.game, d.workers[0], d.workers[1]}
		for _, s := range hit {
			s.links.mysql.CutDownstream()
		}
		time.Sleep(100 * time.Millisecond)
		for _, s := range hit {
			s.links.mysql.Heal()
			s.links.mysql.Reset()
		}
		game := d.game.Says(lostCommit) - before
		if game >= wanted && cuts >= 10 {
			if n := d.replayed(t); n > 0 {
				d.note(t, "%d cuts left %d COMMITs of the game without an answer; %d answers were given again for their keys", cuts, game, n)
				return
			}
		}
		if cuts == 150 {
			t.Fatalf("%d cuts left %d COMMITs of the game without an answer, and none was given again for its key", cuts, game)
		}
		time.Sleep(150 * time.Millisecond) // so that somebody gets to a COMMIT
	}
}

// someDue waits until tasks take effect around now.
func (d *drill) someDue(t *testing.T) {
	t.Helper()
	pipelinetest.Await(t, "effects to be under way", func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 + 5`) > 0
	})
}

// resolved counts the calls that had no answer at first and were acknowledged when they were repeated with the same key.
func (d *drill) resolved(since time.Time) (n int) {
	calls, _ := d.crowd.all()
	for _, c := range calls {
		if c.began.After(since) && c.tries > 1 && c.acked() {
			n++
		}
	}
	return n
}

// replayed counts answers that were kept for their key: the change stands in the journal from before the request that was
// answered.
func (d *drill) replayed(t *testing.T) int {
	t.Helper()
	h, err := readHistory(t.Context(), d.db)
	pipelinetest.Must(t, err)
	at := map[string]int64{}
	for _, l := range h.lines {
		at[fmt.Sprint(l.event, l.task, l.version)] = l.at
	}
	calls, _ := d.crowd.all()
	n := 0
	for _, c := range calls {
		made, stands := at[fmt.Sprint(c.op, c.task, c.version)]
		if stands && c.tries > 1 && c.acked() && made < c.last.UnixMilli() {
			n++
		}
	}
	return n
}
