package reconcile

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestGhostOfAPurgedTaskIsRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.insert(t, pending("ann", time.Hour))
		w.put(t, pending("ann", time.Hour), pending("bob", sec(-10))) // no such rows
		w.run(t, (&auditRows{r: w.Reconciler}).pass)
		w.run(t, (&auditIndex{r: w.Reconciler}).pass)
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
		w.run(t, (&auditIndex{r: w.Reconciler}).pass)
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
		w.run(t, (&auditIndex{r: w.Reconciler}).pass)
		w.wantTruth(t)
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
		entries, err := w.sets.Owner(t.Context(), rows[0].Shard, "ann")
		pipelinetest.Must(t, err)
		for i := 0; i < len(entries); i += 10 {
			key := w.dueKey(rows[0].Shard)
			if i%20 == 0 {
				key = w.ownerKey(rows[0].Shard, "ann")
			}
			pipelinetest.Must(t, w.raw.ZRem(t.Context(), key, entries[i].Member).Err())
		}
		a := &auditRows{r: w.Reconciler}
		for range 3 { // 5000 rows at 2000 a pass
			w.run(t, a.pass)
		}
		w.wantTruth(t)
	})
}
