package bench_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

// statements are those of internal/store on duetime's own table, written out here: a slower product must not make its
// own limit slower. Sessions are as the product's, too.
type statements struct {
	db     *sql.DB
	number atomic.Int64 // of the next row; also its pet's
}

const (
	rawColumns = "id, kind, owner, subject, queue, shard, state, due_at, run_at, version, attempt, max_attempts, " +
		"dedup_key, payload, last_error, traceparent, created_at, updated_at, finished_at"
	rawNew = "id, kind, owner, subject, queue, shard, due_at, run_at, max_attempts, dedup_key, payload, traceparent, " +
		"created_at, updated_at, finished_at"
	rawRow     = ",(?,?,?,?,?,?,?,?,?,?,?,?,?,?,0)"
	rawOnTaken = " ON DUPLICATE KEY UPDATE id = IF(LAST_INSERT_ID(1) = 1, id, id)"
	rawNow     = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
)

func newStatements(w *world) *statements {
	w.Helper()
	s, err := store.Open(w.deployment.DSN, store.Options{})
	pipelinetest.Must(w, err)
	pipelinetest.Must(w, s.Migrate(w.Context(), migrations.Files, "bench", 16))
	pipelinetest.Must(w, s.Close())
	db, err := sql.Open("mysql", w.env.MySQL+"&"+pipelinetest.IsolationVariable(w)+"=%27READ-COMMITTED%27")
	pipelinetest.Must(w, err)
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	w.Cleanup(func() { _ = db.Close() })
	return &statements{db: db}
}

// row is a new task's values.
func (s *statements) row(now time.Time) (task.ID, []any) {
	n := s.number.Add(1)
	id := task.NewID()
	due := now.Add(farOff).UnixMilli()
	return id, []any{
		id[:], "pet.meal", fmt.Sprint(n), "", "default", n % 16, due, due, 25, nil,
		fmt.Sprintf(`{"id":%d,"due":%d}`, n, due*1000), "", now.UnixMilli(), now.UnixMilli(),
	}
}

// insert writes so many rows in a statement, which commits by itself.
func (s *statements) insert(rows int) call {
	text := "INSERT INTO duetime_tasks (" + rawNew + ") VALUES " + strings.Repeat(rawRow, rows)[1:]
	if rows > 1 {
		text += rawOnTaken
	}
	return func(ctx context.Context, _ int) (int, error) {
		args := make([]any, 0, 14*rows)
		now := time.Now()
		for range rows {
			_, values := s.row(now)
			args = append(args, values...)
		}
		_, err := s.db.ExecContext(ctx, text, args...)
		return rows, err
	}
}

// known writes rows and gives their ids in the order of the ids, and the number of the first one's pet.
func (s *statements) known(w *world, n int64) ([]task.ID, int64) {
	w.Helper()
	const rows = 1000
	first := s.number.Load() + 1
	ids := make([]task.ID, 0, n)
	for done := int64(0); done < n; done += rows {
		part := min(rows, n-done)
		var args []any
		now := time.Now()
		for range part {
			id, values := s.row(now)
			ids, args = append(ids, id), append(args, values...)
		}
		_, err := s.db.ExecContext(w.Context(), "INSERT INTO duetime_tasks ("+rawNew+") VALUES "+strings.Repeat(rawRow, int(part))[1:], args...)
		pipelinetest.Must(w, err)
	}
	slices.SortFunc(ids, task.ID.Compare)
	return ids, first
}

// batches does the worker's transaction for n tasks, 100 at a time on 4 connections, and gives how many a second.
func (s *statements) batches(w *world, n int64) float64 {
	w.Helper()
	const size, connections = 100, 4
	ids, first := s.known(w, n)
	w.exec("INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(first, first+n-1) + " ORDER BY seq")
	var group errgroup.Group
	group.SetLimit(connections)
	began := time.Now()
	for part := range slices.Chunk(ids, size) {
		pets := first
		first += int64(len(part))
		group.Go(func() error { return s.batch(w.Context(), part, pets) })
	}
	pipelinetest.Must(w, group.Wait())
	return float64(n) / time.Since(began).Seconds()
}

// batch locks the rows, marks them done and feeds their pets, in one transaction.
func (s *statements) batch(ctx context.Context, ids []task.ID, pet int64) error {
	keys, pets := make([]any, len(ids)), make([]any, len(ids))
	for i := range ids {
		keys[i], pets[i] = ids[i][:], pet+int64(i)
	}
	marks := "(" + strings.Repeat(",?", len(ids))[1:] + ")"
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if err := lock(ctx, tx, "duetime_tasks", marks, keys); err != nil {
			return err
		}
		now := time.Now().UnixMilli()
		_, err := tx.ExecContext(ctx, "UPDATE duetime_tasks FORCE INDEX (PRIMARY) SET state = 1, version = version + 1, finished_at = ?, "+
			"updated_at = ?, dedup_key = CASE WHEN SUBSTR(dedup_key, 1, 1) = 'k' THEN NULL ELSE dedup_key END "+
			"WHERE state = 0 AND (version = ? AND id IN "+marks+")", append([]any{now, now, 1}, keys...)...)
		if err != nil {
			return fmt.Errorf("mark done: %w", err)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE bench_pets SET meals = meals + 1 WHERE id IN "+marks, pets...); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		return nil
	})
}

// lock reads all columns of the rows, as the worker does.
func lock(ctx context.Context, tx *sql.Tx, table, marks string, keys []any) error {
	rows, err := tx.QueryContext(ctx, "SELECT "+rawNow+", "+rawColumns+" FROM "+table+" FORCE INDEX (PRIMARY) WHERE id IN "+marks+
		" ORDER BY id FOR UPDATE SKIP LOCKED", keys...)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { _ = rows.Close() }()
	columns := make([]sql.RawBytes, 20)
	into := make([]any, len(columns))
	for i := range columns {
		into[i] = &columns[i]
	}
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	if err := rows.Err(); err != nil || n != len(keys) {
		return fmt.Errorf("locked %d rows of %d: %w", n, len(keys), err)
	}
	return nil
}

// shift locks a hundred rows and moves them together, again and again in turn: an owner's tasks in one call.
func (s *statements) shift(w *world) call {
	w.Helper()
	const size, parts = 100, 100
	ids, _ := s.known(w, size*parts)
	marks := "(" + strings.Repeat(",?", size)[1:] + ")"
	turn := int64(0)
	return func(ctx context.Context, _ int) (int, error) {
		keys := make([]any, size)
		for i := range keys {
			keys[i] = ids[turn%parts*size+int64(i)][:]
		}
		version := 1 + turn/parts
		turn++
		return size, s.inTx(ctx, func(tx *sql.Tx) error {
			if err := lock(ctx, tx, "duetime_tasks", marks, keys); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE duetime_tasks FORCE INDEX (PRIMARY) SET version = version + 1, due_at = due_at + 60000, "+
				"run_at = due_at, updated_at = ? WHERE state = 0 AND (version = ? AND id IN "+marks+")",
				append([]any{time.Now().UnixMilli(), version}, keys...)...)
			return err
		})
	}
}

func (s *statements) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// swap moves a row of the caller's own to another time by compare-and-set, again and again in turn.
func (s *statements) swap(w *world, callers int) call {
	w.Helper()
	ids, _ := s.known(w, int64(callers)*1000)
	turns := make([]int64, callers)
	return func(ctx context.Context, caller int) (int, error) {
		turn := turns[caller]
		turns[caller]++
		id := ids[int64(caller)*1000+turn%1000]
		now := time.Now()
		due := now.Add(farOff).UnixMilli() + turn
		r, err := s.db.ExecContext(ctx, "UPDATE duetime_tasks FORCE INDEX (PRIMARY) SET version = version + 1, due_at = ?, run_at = ?, "+
			"updated_at = ? WHERE id = ? AND version = ? AND state = 0", due, due, now.UnixMilli(), id[:], 1+turn/1000)
		if err != nil {
			return 0, err
		}
		if n, err := r.RowsAffected(); n != 1 || err != nil {
			return 0, fmt.Errorf("moved %d rows: %w", n, err)
		}
		return 1, nil
	}
}
