package chaos_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	orderKind = "chaos.order"

	traders     = 8
	orderEvery  = 200 * time.Millisecond // of one trader
	orderAhead  = 4 * time.Second        // by which the daemon has the row in the index, as docs/SQL-CONTRACT.md says
	orderSpread = 4 * time.Second
	recent      = 40 // orders of a trader, among which it picks what it changes: some wait, run, wait for a retry, or have ended
)

// shop is a service that schedules, moves and cancels tasks by the SQL contract.
type shop struct {
	db      *sql.DB
	traders []*trader
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// trader makes one change after the other, so that the changes of an order have an order.
type trader struct {
	orders  []*order
	trouble error // that the contract doesn't foresee
}

// order is a task, with the changes that were answered yes.
type order struct {
	id      string
	changes []orderChange
}

type orderChange struct {
	cancel       bool
	due          int64 // Unix ms
	began, ended int64 // of the call, Unix ms
}

func openShop(t *testing.T, dsn string) *shop {
	t.Helper()
	db, err := sql.Open("mysql", dsn+"?innodb_lock_wait_timeout=1")
	pipelinetest.Must(t, err)
	db.SetMaxIdleConns(traders)
	t.Cleanup(func() { _ = db.Close() })
	return &shop{db: db}
}

// trade lets the traders work until close.
func (s *shop) trade() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for range traders {
		r := &trader{}
		s.traders = append(s.traders, r)
		s.done.Go(func() { r.trade(ctx, s.db) })
	}
}

// close waits until the last changes are answered.
func (s *shop) close(t *testing.T) {
	t.Helper()
	s.stop()
	s.done.Wait()
	for _, r := range s.traders {
		pipelinetest.Must(t, r.trouble)
	}
}

// orders returns all of them, by id. The shop is closed.
func (s *shop) orders() map[string]*order {
	all := map[string]*order{}
	for _, r := range s.traders {
		for _, o := range r.orders {
			all[o.id] = o
		}
	}
	return all
}

func (r *trader) trade(ctx context.Context, db *sql.DB) {
	tick := time.NewTicker(orderEvery)
	defer tick.Stop()
	for r.trouble == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.trouble = r.visit(db)
	}
}

// visit schedules an order, and now and then moves or cancels an earlier one.
func (r *trader) visit(db *sql.DB) error {
	due := time.Now().Add(orderAhead + rand.N(orderSpread)).UnixMilli()
	o := &order{id: uuid.Must(uuid.NewV7()).String()}
	r.orders = append(r.orders, o)
	const at = `CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`
	err := o.change(db, orderChange{due: due}, `INSERT INTO duetime_tasks
		(id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(REPLACE(?, '-', '')), ?, ?, 'push', CRC32(?) MOD shards, ?, ?, ?, `+at+`, `+at+` FROM duetime_layout`,
		o.id, orderKind, o.id, o.id, due, due, fmt.Sprintf(`{"order":%q}`, o.id))
	if err != nil {
		return err
	}
	o = r.orders[len(r.orders)-1-rand.IntN(min(len(r.orders), recent))]
	switch n := rand.IntN(100); {
	case n < 30:
		return o.change(db, orderChange{due: due}, `UPDATE duetime_tasks
			SET version = version + 1, updated_at = `+at+`, due_at = ?, run_at = ?
			WHERE id = UNHEX(REPLACE(?, '-', '')) AND state = 0`, due, due, o.id)
	case n < 45:
		return o.change(db, orderChange{cancel: true}, `UPDATE duetime_tasks
			SET version = version + 1, updated_at = `+at+`, state = 2, finished_at = `+at+`
			WHERE id = UNHEX(REPLACE(?, '-', '')) AND state = 0`, o.id)
	}
	return nil
}

// The server's errors by which a change is answered "try again later": somebody else holds the row.
const (
	lockWait = 1205
	deadlock = 1213
)

// change runs one statement, and keeps the change if the answer is yes.
func (o *order) change(db *sql.DB, c orderChange, query string, args ...any) error {
	c.began = time.Now().UnixMilli()
	res, err := db.ExecContext(context.Background(), query, args...)
	c.ended = time.Now().UnixMilli()
	if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok && (refusal.Number == lockWait || refusal.Number == deadlock) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err // it has ended
	}
	o.changes = append(o.changes, c)
	return nil
}
