package reconcile

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestGhostOfAPurgedTaskIsRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.insert(t, pending("ann", time.Hour))
		w.put(t, pending("ann", time.Hour), pending("bob", sec(-10))) // no such rows
		w.run(t, w.auditRows().pass)
		w.run(t, w.auditIndex().pass)
		w.wantTruth(t)
	})
}

func TestUnreadableMembersAreRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		w.put(t, row)
		for _, key := range []string{w.dueKey(0), w.ownerKey(row.Shard, "ann"), w.ownerKey(1, "nobody")} {
			pipelinetest.Must(t, w.raw.ZAdd(t.Context(), key, redis.Z{Score: 7, Member: "junk"}).Err())
		}
		w.run(t, w.auditIndex().pass)
		if n, err := w.raw.Exists(t.Context(), w.ownerKey(1, "nobody")).Result(); err != nil || n != 0 {
			t.Errorf("the set of nobody: %d, %v, want it gone", n, err)
		}
		w.wantTruth(t)
	})
}

func TestEntriesOfAnotherShardAreRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		stray := row
		stray.Shard = (row.Shard + 1) % shards
		w.put(t, row, pending("bob", time.Hour))
		w.put(t, stray)
		w.run(t, w.auditIndex().pass)
		w.wantTruth(t)
	})
}

// A process that moves a task to another queue may die before it drops the old entry, whose member names the old queue.
func TestEntriesOfAnotherQueueAreRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		before, alike := row, row
		before.Queue, alike.Queue = "before", "alike"
		before.Version--
		w.put(t, row)
		w.put(t, before)
		w.put(t, alike)
		w.run(t, w.auditIndex().pass)
		w.run(t, w.auditRows().pass)
		w.wantStanding(t, "an older version's entry", before, nowhere)
		w.wantStanding(t, "an entry like the row's", alike, nowhere)
		w.wantStanding(t, "the row's entry", row, both(row))
	})
}

func TestAuditHealsLostEntriesWithinItsRate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.AuditRate = 2000
		var all []task.Task
		for i := range 5000 {
			all = append(all, pending("ann", time.Hour+time.Duration(i)*time.Second))
		}
		var rows []task.Task
		for len(all) > 0 {
			rows = append(rows, w.insert(t, all[:1000]...)...)
			all = all[1000:]
		}
		w.put(t, rows...)
		entries, _, err := w.sets.Owner(t.Context(), rows[0].Shard, "ann")
		pipelinetest.Must(t, err)
		for i := 0; i < len(entries); i += 10 {
			key := w.dueKey(rows[0].Shard)
			if i%20 == 0 {
				key = w.ownerKey(rows[0].Shard, "ann")
			}
			pipelinetest.Must(t, w.raw.ZRem(t.Context(), key, entries[i].Member).Err())
		}
		a := w.auditRows()
		for range 3 { // 5000 rows at 2000 a pass
			w.run(t, a.pass)
		}
		w.wantTruth(t)
	})
}

// After a sample has found drift, the audit looks at everything until a whole round finds none.
func TestASampleThatFindsSomethingHasAllAudited(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.insert(t, many(3*sampleEntries)...)
		w.put(t, rows...)
		for _, row := range []task.Task{rows[0], rows[len(rows)-1]} { // in the first sample, and in the last
			pipelinetest.Must(t, w.raw.ZRem(t.Context(), w.dueKey(row.Shard), w.entry(t, row).Member).Err())
		}
		a := &auditRows{pace: pace{r: w.Reconciler}}
		if res := w.run(t, a.pass); res.Next != auditInterval {
			t.Errorf("the next pass comes after %v, want %v once something was found", res.Next, auditInterval)
		}
		if len(w.wakeRows) != 1 || len(w.wakeIndex) != 1 {
			t.Error("the audits were not woken")
		}
		w.run(t, a.pass)
		w.wantTruth(t)
		if res := w.run(t, a.pass); res.Next != 0 {
			t.Errorf("the next pass comes after %v although a whole round found nothing", res.Next)
		}
	})
}

// In a burst some entries always lack their row's last change: this is mended, but is no drift and raises no alarm.
func TestWhatJustChangedIsNoDrift(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.insert(t, pending("ann", time.Hour), pending("bob", time.Hour), pending("cid", time.Hour), pending("dan", time.Hour))
		w.put(t, rows[:3]...)
		audit := func(what string, alarms int64) {
			t.Helper()
			rows, sets := w.auditRows(), w.auditIndex()
			before := w.alarms.Load()
			w.run(t, rows.pass)
			w.run(t, sets.pass)
			w.wantTruth(t)
			if got := w.alarms.Load() - before; got != alarms {
				t.Errorf("%d alarms for %s, want %d", got, what, alarms)
			}
		}
		w.save(t, w.cancelled(t, rows[0]))
		w.save(t, w.moved(t, rows[1], 2*time.Hour))
		w.save(t, w.moved(t, rows[3], 2*time.Hour)) // never put
		w.now = base.Add(writerTime / 2)
		audit("rows whose writers may still be at the index", 0)

		w.save(t, w.cancelled(t, rows[2]))
		w.now = w.now.Add(2 * writerTime)
		audit("one whose writer is not", 1)

		w.now = w.now.Add(time.Minute)
		w.insert(t, pending("eve", time.Hour))
		w.now = base.Add(-time.Hour - time.Minute) // the database's clock was set back to before it wrote the rows
		audit("a row from the future", 1)
	})
}
