package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	hostileFor  = 20 * time.Second
	hostileHold = 3 * time.Second // the longest that one transaction keeps its locks
	hostile     = 2               // transactions at once
	grabbed     = 4               // pets and their tasks in one of them: a player who wants one of these waits
)

// hostileTransactions lock as nobody of ours does: pets first, from the highest, then the tasks of their meals.
func hostileTransactions(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE IF NOT EXISTS hostile (n INT) ENGINE=InnoDB`)
	deadlocks, waits := d.innodb(t, "lock_deadlocks"), d.innodb(t, "lock_row_lock_waits")
	retried, failed, ate := d.ofWorkers(t, "duetime_batches_retried_total"), d.failures(t), d.ate(t)
	var lost atomic.Int64
	from := time.Now()
	d.fault(t, "locks held up to 3 s", 10*time.Second, func() {
		var g errgroup.Group
		for range hostile {
			g.Go(func() error {
				for time.Since(from) < hostileFor {
					if err := d.grab(t.Context(), &lost); err != nil {
						return err
					}
				}
				return nil
			})
		}
		pipelinetest.Must(t, g.Wait())
		ate = d.ate(t) - ate
	})
	deadlocks, waits = d.innodb(t, "lock_deadlocks")-deadlocks, d.innodb(t, "lock_row_lock_waits")-waits
	retried = d.ofWorkers(t, "duetime_batches_retried_total") - retried
	d.note(t, "%d deadlocks, %d of them lost by the hostile side; %d waits for locks; %d batches run again; %d effects meanwhile",
		deadlocks, lost.Load(), waits, retried, ate)
	if deadlocks <= int(lost.Load()) || waits == 0 || retried == 0 {
		t.Error("no deadlock or no wait was the product's own")
	}
	if n := d.failures(t) - failed; n > 0 {
		t.Errorf("%d attempts were charged: nobody's handler failed", n)
	}
	if ate == 0 {
		t.Error("no effect came while the locks were held")
	}
}

// grab is one hostile transaction. It counts those that the server ended for a deadlock.
func (d *drill) grab(ctx context.Context, lost *atomic.Int64) error {
	pets, tasks, err := d.soonest(ctx)
	if err != nil {
		return err
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // there is nothing else to do with it
	hold := rand.N(hostileHold / 2)
	if rand.IntN(4) > 0 {
		// The server ends the transaction that has written less: this one is not to be it.
		if _, err := tx.ExecContext(ctx, "INSERT INTO hostile SELECT seq FROM "+pipelinetest.Numbers(1, 500)); err != nil {
			return err
		}
	}
	for i, query := range []string{`SELECT id FROM pets WHERE id = ? FOR UPDATE`, `SELECT version FROM duetime_tasks WHERE id = ? FOR UPDATE`} {
		for _, key := range [][]any{pets, tasks}[i] {
			_, err := tx.ExecContext(ctx, query, key)
			if e, ok := errors.AsType[*mysql.MySQLError](err); ok && (e.Number == 1213 || e.Number == 1205) {
				lost.Add(1)
				return nil
			}
			if err != nil {
				return err
			}
		}
		time.Sleep(hold)
	}
	return nil
}

// soonest picks pets whose meals end soon, from the highest, and the tasks of these meals.
func (d *drill) soonest(ctx context.Context) (pets, tasks []any, err error) {
	rows, err := d.db.QueryContext(ctx, `SELECT pet, id FROM (SELECT CAST(subject AS UNSIGNED) AS pet, id FROM
(SELECT subject, id FROM duetime_tasks WHERE state = 0 ORDER BY run_at LIMIT 100) AS soon ORDER BY RAND() LIMIT ?) AS some ORDER BY pet DESC`, grabbed)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var pet int64
		var id []byte
		if err := rows.Scan(&pet, &id); err != nil {
			return nil, nil, err
		}
		pets, tasks = append(pets, pet), append(tasks, id)
	}
	return pets, tasks, rows.Err()
}

// innodb reads one of InnoDB's counters.
func (d *drill) innodb(t *testing.T, name string) int {
	t.Helper()
	return d.count(t, "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = ?", name)
}

// ofWorkers sums a metric over the workers.
func (d *drill) ofWorkers(t *testing.T, metric string) int {
	t.Helper()
	sum := 0.0
	for _, s := range d.workers {
		sum += s.Metric(t, metric)
	}
	return int(sum)
}

// failures counts the attempts that the workers charged.
func (d *drill) failures(t *testing.T) int {
	t.Helper()
	return d.ofWorkers(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="failed"}`)
}

// ate counts the effects so far.
func (d *drill) ate(t *testing.T) int {
	t.Helper()
	return d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished'`)
}
