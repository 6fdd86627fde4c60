package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	chains   = 1000
	blockers = 8 // callers at once
)

// link is a task of a chain: its handler has an effect and schedules the next one.
var link = task.NewKind[struct{}]("chaos.chain")

func blockRow() entry {
	return entry{
		n: 83, fault: fmt.Sprintf("%d owners blocked in the middle of chains of tasks, a worker killed meanwhile", chains), alone: true,
		setup: setup{worker: "./internal/test/chaos/poison", rate: 100}, run: blocksHold,
	}
}

// blocksHold blocks owners whose tasks each schedule the next one, a tenth of them beside a transaction that has scheduled before the
// block and commits after it. Once a block was answered, the owner has no further effect, and in the end no pending task.
func blocksHold(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_chain (seq BIGINT AUTO_INCREMENT PRIMARY KEY, owner VARCHAR(64) NOT NULL, KEY (owner)) ENGINE=InnoDB`)
	s, err := store.Open(d.DSN, store.Options{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	client, err := schedule.New(schedule.Config{Logger: slog.New(slog.DiscardHandler)}, s, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	var specs []task.Spec
	for i := range chains {
		specs = append(specs, link.New(chainOwner(i), struct{}{}, task.In(time.Duration(i)*time.Millisecond)))
	}
	pipelinetest.Must(t, client.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.ScheduleMany(t.Context(), specs)
		return err
	}))
	d.await(t, "each chain to go on", time.Minute, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM (SELECT owner FROM chaos_chain GROUP BY owner HAVING COUNT(*) > 1) AS going`) == chains
	})

	atAnswer := make([]int, chains)
	var next, running atomic.Int64
	var blocking sync.WaitGroup
	for range blockers {
		blocking.Go(func() {
			for i := int(next.Add(1)) - 1; i < chains; i = int(next.Add(1)) - 1 {
				atAnswer[i] = blockChain(t, s, client, i, &running)
			}
		})
	}
	d.fault(t, "worker killed", 10*time.Second, func() {
		d.await(t, "some owners to be blocked", time.Minute, func() bool { return next.Load() > chains/4 })
		pipelinetest.Must(t, d.workers[0].Kill())
		blocking.Wait()
		d.restart(t, d.workers[0])
	})
	d.await(t, "no pending task of a blocked owner", 3*time.Minute, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND kind = 'chaos.chain'`) == 0
	})
	after := 0
	for i, n := range atAnswer {
		after += d.count(t, `SELECT COUNT(*) FROM chaos_chain WHERE owner = '`+chainOwner(i)+`'`) - n
	}
	d.note(t, "%d owners blocked, %d of them beside an open transaction, %d calls repeated for a running task: %d effects after the answer",
		chains, chains/10, running.Load(), after)
	if after != 0 {
		t.Errorf("%d effects after the answers, want none", after)
	}
}

func chainOwner(i int) string { return fmt.Sprint("chain-", i) }

// blockChain blocks an owner, and returns how many effects there are at the answer.
func blockChain(t *testing.T, s *store.Store, client *schedule.Client, i int, running *atomic.Int64) (effects int) {
	owner := chainOwner(i)
	var open *sqlx.Tx
	var err error
	if i%10 == 0 {
		if open, err = s.Begin(context.Background()); err == nil {
			_, err = schedule.NewTx(open, s).Schedule(context.Background(), link.New(owner, struct{}{}, task.In(0)))
		}
		if err != nil {
			t.Errorf("schedule for %s: %v", owner, err)
			return 0
		}
	}
	for {
		if _, err = client.BlockOwner(context.Background(), owner); !errors.Is(err, task.ErrRunning) {
			break
		}
		running.Add(1)
	}
	if err != nil {
		t.Errorf("block %s: %v", owner, err)
	}
	if err := s.DB().Get(&effects, `SELECT COUNT(*) FROM chaos_chain WHERE owner = ?`, owner); err != nil {
		t.Error(err)
	}
	if open != nil {
		if err := open.Commit(); err != nil {
			t.Errorf("commit for %s: %v", owner, err)
		}
	}
	return effects
}
