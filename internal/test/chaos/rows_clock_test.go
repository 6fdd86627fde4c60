package chaos_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	clockJump = 30 * time.Second
	clockLag  = 2 * time.Second // the longest that a task may be late by MySQL's clock, whoever's clock jumps
)

// watch is a server with a clock that the row moves.
type watch struct {
	name  string
	clock *pipelinetest.Clock
}

// clocksRow gives each server a clock of its own. MySQL's comes last: it is the one that everybody goes by, and it ends
// ahead of the others.
func clocksRow() entry {
	var watches []watch
	return entry{
		n: 21, fault: "the clock of MySQL, Redis, ZooKeeper or Kafka set by 30 s", alone: true,
		setup: setup{meal: 5 * time.Second, late: clockLag, servers: func(t *testing.T, w *world) {
			t.Helper()
			watches = windUp(t, w)
		}},
		run: func(t *testing.T, d *drill) { t.Helper(); clocksJump(t, d, watches) },
	}
}

func windUp(t *testing.T, w *world) []watch {
	t.Helper()
	w.mysql, w.redis, w.zookeeper = pipelinetest.OwnMySQL(t), pipelinetest.OwnRedis(t), pipelinetest.OwnZooKeeper(t)
	w.kafka = pipelinetest.OwnKafka(t, kafkaLine)
	var watches []watch
	for _, s := range []struct {
		name   string
		server *pipelinetest.Server
	}{{"Redis", w.redis.Server}, {"ZooKeeper", w.zookeeper.Server}, {"Kafka", w.kafka.Server}, {"MySQL", w.mysql.Server}} {
		c := watch{s.name, pipelinetest.NewClock(t)}
		s.server.UseClock(c.clock)
		pipelinetest.Must(t, s.server.Restart())
		watches = append(watches, c)
	}
	return watches
}

func clocksJump(t *testing.T, d *drill, watches []watch) {
	t.Helper()
	last := len(watches) - 1
	for _, w := range watches[:last] {
		for _, by := range []time.Duration{clockJump, -2 * clockJump} {
			w.clock.Shift(by)
			d.fault(t, fmt.Sprintf("%s at %+.0f s", w.name, w.clock.Offset().Seconds()), clockLag, func() { time.Sleep(d.setup.meal) })
		}
		w.clock.Shift(clockJump)
	}
	skipped := d.databaseJumps(t, watches[last])
	d.wantLag(t, skipped)
}

// span is a time on the database's clock, in Unix ms.
type span struct{ from, to int64 }

// databaseJumps sets MySQL's clock back, on, and on again. It returns the times that it skipped: the tasks of these are
// late by definition, and must take effect at once.
func (d *drill) databaseJumps(t *testing.T, w watch) []span {
	t.Helper()
	var skipped []span
	for _, by := range []time.Duration{-clockJump, clockJump, clockJump} {
		pipelinetest.Await(t, "nothing to be late before the jump", func() bool {
			n, err := d.overdue(t.Context(), d.felt)
			return err == nil && n == 0
		})
		from := d.clock()
		d.fault(t, fmt.Sprintf("%s from %+.0f by %+.0f s", w.name, w.clock.Offset().Seconds(), by.Seconds()), clockLag, func() {
			d.betweenEffects(t, func() {
				w.clock.Shift(by)
				d.crowd.skew.Add(by.Milliseconds())
			})
		})
		if off := int64(d.count(t, `SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)`)) - d.clock(); off > 1000 || off < -1000 {
			t.Fatalf("%s's clock is %d ms from where it was set", w.name, off)
		}
		stay := d.setup.meal
		if by < 0 {
			stay -= by // until what was about to happen comes again
		} else {
			skipped = append(skipped, span{from - clockLag.Milliseconds(), from + by.Milliseconds()})
		}
		time.Sleep(stay)
	}
	return skipped
}

// betweenEffects does something while no effect's transaction is open. One that had found its tasks due before the clock
// is set back would journal them by the clock after that, and seem early.
func (d *drill) betweenEffects(t *testing.T, do func()) {
	t.Helper()
	const ahead = 500 * time.Millisecond // what becomes due meanwhile is held too
	var err error
	for range 100 {
		began := time.Now()
		var tx *sql.Tx
		tx, err = d.db.BeginTx(t.Context(), nil)
		pipelinetest.Must(t, err)
		_, err = tx.ExecContext(t.Context(), `UPDATE duetime_tasks SET kind = kind WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 + ?`, ahead.Milliseconds())
		held := err == nil && time.Since(began) < ahead/2
		if held {
			do()
		}
		pipelinetest.Must(t, tx.Rollback())
		if held {
			return
		}
	}
	t.Fatalf("the due tasks can't be held: %v", err)
}

// wantLag wants every effect in time that was not due in a skipped time.
func (d *drill) wantLag(t *testing.T, skipped []span) {
	t.Helper()
	d.becomeQuiet(t, "the end", time.Minute)
	n, most := 0, time.Duration(0)
	for id, m := range d.look(t).meals {
		if !m.ate() || within(skipped, m.due) {
			continue
		}
		n++
		most = max(most, m.lag())
		if m.lag() > clockLag+d.slack {
			t.Errorf("task %s, due at %d: late by %v, want at most %v", id, m.due, m.lag(), clockLag)
		}
	}
	d.note(t, "%d effects outside of the times that MySQL's clock skipped, the latest %v after its time", n, most)
}

func within(spans []span, at int64) bool {
	for _, s := range spans {
		if s.from <= at && at <= s.to {
			return true
		}
	}
	return false
}
