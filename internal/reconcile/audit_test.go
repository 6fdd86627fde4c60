package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestAuditHealsLostEntriesWithinItsRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
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
	entries, _, err := worldtest.OwnerEntries(t.Context(), w.sets, rows[0].Shard, "ann")
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
}

// After a sample has found drift, the audit looks at everything until a whole round finds none.
func TestASampleThatFindsSomethingHasAllAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.insert(t, many(3*sampleEntries)...)
	w.put(t, rows...)
	for _, row := range []task.Task{rows[0], rows[len(rows)-1]} { // in the first sample, and in the last
		pipelinetest.Must(t, w.raw.ZRem(t.Context(), w.dueKey(row.Shard), w.entry(t, row).Member).Err())
	}
	a := new(auditRows)
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
}

// A row from the future was written before the database's clock was set back: its writer is not still about to put it.
func TestRowOfTheFutureIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.insert(t, pending("eve", time.Hour))
	w.now = base.Add(-time.Hour - time.Minute)
	w.run(t, w.auditRows().pass)
	w.wantTruth(t)
	if n := w.alarms.Load(); n != 2 { // one is the test's own
		t.Errorf("%d alarms, want 2", n)
	}
}
