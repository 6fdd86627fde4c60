package bench_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// onLife is what BENCH_WHAT says to have measured what whole lives of rows cost: inserted, settled with an effect, forgotten.
const onLife = "life"

// A tenth of ten million pending rows and of seven days of a hundred a second, with a tenth of their memory.
const (
	lifePending = 1_000_000
	lifeDay     = 860_000
	lifeEnded   = 7 * lifeDay
	lifePets    = 100_000
	lifePool    = "400M"
	lifeTurn    = 15 * time.Second
	lifeBatch   = 100
	lifePurge   = 500
)

// keeping is a way to keep rows: what its tables have beside the primary key, and where rows go when they end.
type keeping struct {
	name    string
	keys    string // of the table with pending rows
	apart   bool   // ended rows leave it for a table with these keys
	ended   string
	byEnd   bool // that table is in the order of ends, with an index of ids
	later   bool // rows are marked first, and leave for that table later
	ring    bool // that table is one of a ring, whose oldest is truncated
	forgets bool // nothing is kept
}

const (
	keyOfText   = ", ADD UNIQUE KEY duetime_tasks_dedup (owner, kind, dedup_key)"
	keyOfHash   = ", MODIFY dedup_key BINARY(16) NULL, ADD UNIQUE KEY duetime_tasks_dedup (dedup_key)"
	keysToRun   = ", ADD KEY duetime_tasks_due (state, run_at, id), ADD KEY duetime_tasks_owner (owner, state, run_at)"
	keyOfAge    = ", ADD KEY duetime_tasks_updated (updated_at, id)"
	orderOfEnds = ", DROP PRIMARY KEY, ADD PRIMARY KEY (updated_at, id), ADD UNIQUE KEY duetime_ended_id (id)"
	keyOfOwner  = ", ADD KEY duetime_ended_owner (owner, finished_at)"
)

var keepings = []keeping{
	{name: "one table, as it is", keys: keyOfText + keysToRun + keyOfAge},
	{name: "one table, keys hashed", keys: keyOfHash + keysToRun + keyOfAge},
	{name: "ended rows apart", keys: keyOfText + keysToRun + keyOfAge, apart: true},
	{name: "ended rows apart, in the order of their ends", keys: keyOfText + keysToRun + keyOfAge, apart: true, ended: orderOfEnds, byEnd: true},
	{name: "the same, by owner too", keys: keyOfText + keysToRun + keyOfAge, apart: true, ended: orderOfEnds + keyOfOwner, byEnd: true},
	{name: "the same, but marked first, and moved later", keys: keyOfText + keysToRun + keyOfAge, apart: true, ended: orderOfEnds + keyOfOwner, byEnd: true, later: true},
	{name: "ended rows apart, keys hashed", keys: keyOfHash + keysToRun + keyOfAge, apart: true},
	{name: "a ring, keys hashed", keys: keyOfHash + keysToRun + keyOfAge, apart: true, ring: true},
	{name: "a ring by owner too, keys hashed", keys: keyOfHash + keysToRun + keyOfAge, apart: true, ended: keyOfOwner, ring: true},
	{name: "nothing kept, keys hashed", keys: keyOfHash + keysToRun + keyOfAge, forgets: true},
}

// life is a way to keep rows at work.
type life struct {
	*world
	*keeping
	table   string
	due     []task.ID // pending rows in the order of their due times
	next    atomic.Int64
	purged  [2]string // the time of change and the id up to which rows are forgotten
	moved   [2]string // those up to which rows have left
	rates   []float64
	written []float64
}

// measureLife measures all keepings in turns, forwards and backwards, and writes the table into the decision about them.
func (b *bench) measureLife(t *testing.T) {
	t.Helper()
	began := time.Now()
	w := b.open(t, parts, options{pool: lifePool})
	lives := make([]*life, 0, len(keepings))
	w.exec("INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(0, lifePets-1) + " ORDER BY seq")
	newStatements(w)
	for i := range keepings {
		l := &life{world: w, keeping: &keepings[i], table: fmt.Sprintf("life_%d", i)}
		l.plant()
		lives = append(lives, l)
	}
	for range b.runs {
		for _, l := range lives {
			l.turn()
		}
		slices.Reverse(lives)
	}
	f := &report.Figures{Part: onLife}
	for i := range keepings {
		l := lives[slices.IndexFunc(lives, func(l *life) bool { return l.keeping == &keepings[i] })]
		f.Text(l.name, fmt.Sprintf("%.0f lives/s (%s), %.0f B written a life", report.Median(l.rates), rounded(l.rates), report.Median(l.written)))
	}
	for _, l := range lives {
		if l.ring {
			f.Add(l.name+": truncating a day amid lives", l.truncate(), "s")
		}
	}
	f.Circumstances = b.scaleCircumstances(t, "bench/run "+onLife, time.Since(began))
	fmt.Println(f.Markdown())
	if b.scale == 1 {
		pipelinetest.Must(t, f.Write(filepath.Join("..", "docs", "decisions", "2026-12-01-forgetting-for-free.md")))
	}
}

func rounded(values []float64) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprintf("%.0f", v)
	}
	return strings.Join(texts, ", ")
}

// plant makes the tables with their background: rows first, then their keys, whose pages have the room that they have after a
// while. Of a ring only the day that is written to and the oldest are there: nothing touches the others.
func (l *life) plant() {
	l.Helper()
	began := time.Now()
	conn, err := l.db.Conn(l.Context())
	pipelinetest.Must(l, err)
	defer func() { _ = conn.Close() }()
	exec := func(text string) {
		l.Helper()
		_, err := conn.ExecContext(l.Context(), text)
		pipelinetest.Must(l, err)
	}
	exec("SET SESSION sql_log_bin = 0")
	exec("SET GLOBAL innodb_fill_factor = 70")
	const bare = " DROP KEY duetime_tasks_dedup, DROP KEY duetime_tasks_due, DROP KEY duetime_tasks_owner, DROP KEY duetime_tasks_updated"
	build := func(table, keys string, plant func()) {
		exec("CREATE TABLE " + table + " LIKE duetime_tasks")
		exec("ALTER TABLE " + table + bare)
		plant()
		if keys != "" {
			exec("ALTER TABLE " + table + keys[1:])
		}
		exec("ANALYZE TABLE " + table)
	}
	ended := func(table string, n int64) func() {
		return func() {
			l.plantRows(exec, table, "0196", n, 1, fmt.Sprintf("now - 604800000 + seq * 604000000 DIV %d", n))
		}
	}
	build(l.table, l.keeping.keys, func() {
		if !l.apart && !l.forgets {
			ended(l.table, l.bench.count(lifeEnded))()
		}
		l.plantRows(exec, l.table, "0197", l.bench.count(lifePending), 0, "now + 3600000 + seq * 2654435761 MOD 36000000")
	})
	switch {
	case l.ring:
		build(l.table+"_ended", l.ended, ended(l.table+"_ended", l.bench.count(lifeDay/2)))
		build(l.table+"_oldest", l.ended, ended(l.table+"_oldest", l.bench.count(lifeDay)))
	case l.apart:
		build(l.table+"_ended", l.ended, ended(l.table+"_ended", l.bench.count(lifeEnded)))
	}
	l.Logf("%s: planted in %v", l.name, time.Since(began).Round(time.Second))
}

// plantRows inserts rows whose due times, and the ends of ended ones, are at an expression of seq and now.
func (l *life) plantRows(exec func(string), table, prefix string, n int64, state int, due string) {
	l.Helper()
	const part = 50_000
	for first := int64(0); first < n; first += part {
		exec(fmt.Sprintf(`INSERT INTO %s (id, kind, owner, queue, shard, state, due_at, run_at, payload, created_at, updated_at, finished_at)
			SELECT UNHEX(CONCAT('%s0000000070009', LPAD(HEX(seq), 15, '0'))), 'pet.meal', owner, 'default', CRC32(owner) MOD 16, %d, due, due,
			       CONCAT(RPAD(CONCAT('{"id":', seq, ',"due":', due * 1000, ',"note":"'), 98, 'x'), '"}'), made, made, IF(%d = 0, NULL, made)
			FROM (SELECT seq, CONCAT('player-', seq * 7919 MOD 500000) AS owner, %s AS due, LEAST(%s, now - 3600000) AS made
				FROM %s, (SELECT `+rawNow+` AS now) AS clock) AS spread ORDER BY seq`,
			table, prefix, state, state, due, due, pipelinetest.Numbers(first, min(first+part, n)-1)))
	}
}

// turn lives for a while: as many rows are inserted as settled and forgotten, so the background stays as it is.
func (l *life) turn() {
	l.Helper()
	time.Sleep(l.bench.seconds(5 * time.Second)) // what the one before has left is still being written
	l.read()
	before, long := l.writes(), l.bench.seconds(lifeTurn)
	began := time.Now()
	n := l.lives(func() bool { return time.Since(began) < long })
	l.rates = append(l.rates, float64(n)/time.Since(began).Seconds())
	l.written = append(l.written, (l.writes()-before)/float64(n))
	l.Logf("%s: %.0f lives/s, %.0f B a life", l.name, l.rates[len(l.rates)-1], l.written[len(l.written)-1])
}

// lives does lives on 4 connections until it is told to stop, and returns how many.
func (l *life) lives(goOn func() bool) int64 {
	l.Helper()
	const connections = 4
	var lived atomic.Int64
	var purging sync.Mutex
	group, ctx := errgroup.WithContext(l.Context())
	for caller := range connections {
		group.Go(func() error {
			for goOn() {
				if err := l.insert(ctx); err != nil {
					return err
				}
				at := l.next.Add(lifeBatch)
				if err := l.settle(ctx, l.due[at-lifeBatch:at], caller*lifePets/connections, lifePets/connections); err != nil {
					return err
				}
				if n := lived.Add(lifeBatch); !l.ring && !l.forgets && n%lifePurge == 0 {
					purging.Lock()
					err := l.move(ctx)
					if err == nil {
						err = l.purge(ctx)
					}
					purging.Unlock()
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	pipelinetest.Must(l, group.Wait())
	return lived.Load()
}

// read reads which tasks are due next.
func (l *life) read() {
	l.Helper()
	rows, err := l.db.QueryContext(l.Context(), "SELECT id FROM "+l.table+" FORCE INDEX (duetime_tasks_due) WHERE state = 0 ORDER BY run_at, id LIMIT 500000")
	pipelinetest.Must(l, err)
	defer func() { _ = rows.Close() }()
	l.due = l.due[:0]
	for rows.Next() {
		var id []byte
		pipelinetest.Must(l, rows.Scan(&id))
		l.due = append(l.due, task.ID(id))
	}
	pipelinetest.Must(l, rows.Err())
	l.next.Store(0)
}

func (l *life) insert(ctx context.Context) error {
	now := time.Now().UnixMilli()
	args := make([]any, 0, 14*lifeBatch)
	for range lifeBatch {
		id, due := task.NewID(), now+rand.Int64N(36_000_000)+3_600_000
		args = append(args, id[:], "pet.meal", fmt.Sprint("player-", rand.IntN(500_000)), "", "default", due%16, due, due, 25, nil,
			fmt.Sprintf(`{"id":%d,"due":%d,"note":"%060d"}`, due, due*1000, due), "", now, now)
	}
	_, err := l.db.ExecContext(ctx, "INSERT INTO "+l.table+" ("+strings.Replace(rawNew, ", finished_at", "", 1)+") VALUES "+
		strings.Repeat(",(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", lifeBatch)[1:], args...)
	return err
}

// settle does a worker's transaction: lock, end, effect.
func (l *life) settle(ctx context.Context, ids []task.ID, pet, pets int) error {
	slices.SortFunc(ids, task.ID.Compare)
	keys, fed := make([]any, len(ids)), rand.Perm(pets)[:len(ids)]
	slices.Sort(fed)
	meals := make([]any, len(ids))
	for i := range ids {
		keys[i], meals[i] = ids[i][:], pet+fed[i]
	}
	marks := "(" + strings.Repeat(",?", len(ids))[1:] + ")"
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := lock(ctx, tx, l.table, marks, keys); err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	if !l.apart && !l.forgets || l.later {
		err = one(ctx, tx, len(ids), "UPDATE "+l.table+" FORCE INDEX (PRIMARY) SET state = 1, version = version + 1, finished_at = ?, updated_at = ? "+
			"WHERE state = 0 AND id IN "+marks, append([]any{now, now}, keys...)...)
	} else {
		err = l.leave(ctx, tx, task.Pending, now, marks, keys)
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE bench_pets SET meals = meals + 1 WHERE id IN "+marks, meals...); err != nil {
		return err
	}
	return tx.Commit()
}

// leave has rows of a state leave the hot table.
func (l *life) leave(ctx context.Context, tx *sql.Tx, state task.State, now int64, marks string, keys []any) error {
	which := fmt.Sprintf(" FORCE INDEX (PRIMARY) WHERE state = %d AND id IN %s", state, marks)
	if l.apart {
		const columns = "id, kind, owner, subject, queue, shard, due_at, run_at, attempt, max_attempts, dedup_key, payload, last_error, traceparent, created_at, ran"
		err := one(ctx, tx, len(keys), "INSERT INTO "+l.table+"_ended ("+columns+", state, version, updated_at, finished_at) SELECT "+columns+
			", 1, version + 1, ?, ? FROM "+l.table+which, append([]any{now, now}, keys...)...)
		if err != nil {
			return err
		}
	}
	return one(ctx, tx, len(keys), "DELETE "+l.table+" FROM "+l.table+which, keys...)
}

// one executes a statement that has to change so many rows.
func one(ctx context.Context, tx sqlx.ExecerContext, rows int, text string, args ...any) error {
	r, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || int(n) != rows {
		return fmt.Errorf("%d rows of %d: %w", n, rows, err)
	}
	return nil
}

// purge forgets the rows that ended first, or were made first.
func (l *life) purge(ctx context.Context) error {
	if l.byEnd {
		return one(ctx, l.db, lifePurge, "DELETE FROM "+l.table+"_ended ORDER BY updated_at, id LIMIT ?", lifePurge)
	}
	table, find := l.table, lifeByChange
	args := []any{l.purged[0], l.purged[0], l.purged[1], lifePurge}
	if l.apart {
		table, find = l.table+"_ended", " FORCE INDEX (PRIMARY) WHERE id > UNHEX(?) AND state <> 0 ORDER BY id"
		args = args[2:]
	}
	ids, err := l.page(ctx, table+find, &l.purged, args...)
	if err != nil {
		return err
	}
	return one(ctx, l.db, len(ids), "DELETE "+table+" FROM "+table+" FORCE INDEX (PRIMARY) WHERE state <> 0 AND id IN ("+
		strings.Repeat(",?", len(ids))[1:]+")", ids...)
}

// lifeByChange finds ended rows of the hot table behind a place, oldest first.
const lifeByChange = " FORCE INDEX (duetime_tasks_updated) WHERE (updated_at > ? OR updated_at = ? AND id > UNHEX(?)) AND state <> 0 ORDER BY updated_at, id"

// move has the rows leave that were marked first.
func (l *life) move(ctx context.Context) error {
	if !l.later {
		return nil
	}
	ids, err := l.page(ctx, l.table+lifeByChange, &l.moved, l.moved[0], l.moved[0], l.moved[1], lifePurge)
	if err != nil {
		return err
	}
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := l.leave(ctx, tx, task.Done, time.Now().UnixMilli(), "("+strings.Repeat(",?", len(ids))[1:]+")", ids); err != nil {
		return err
	}
	return tx.Commit()
}

// page reads ids by their time of change, and keeps the place of the last.
func (l *life) page(ctx context.Context, from string, last *[2]string, args ...any) (ids []any, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT id, HEX(id), updated_at FROM "+from+" LIMIT ?", args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id, &last[1], &last[0]); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// truncate forgets a day at once while rows live, and returns how many seconds that takes.
func (l *life) truncate() float64 {
	l.Helper()
	l.read()
	long := l.bench.seconds(lifeTurn) / 3
	done := make(chan time.Duration, 1)
	time.AfterFunc(long/2, func() {
		began := time.Now()
		_, err := l.db.ExecContext(l.Context(), "TRUNCATE TABLE "+l.table+"_oldest")
		if err != nil {
			l.Errorf("truncate: %v", err)
		}
		done <- time.Since(began)
	})
	began := time.Now()
	l.lives(func() bool { return time.Since(began) < long })
	return (<-done).Seconds()
}

// writes are the bytes that the server has written: pages, their second copies, its log and its binary log.
func (l *life) writes() float64 {
	l.Helper()
	var name string
	var bytes, sum float64
	pipelinetest.Must(l, l.db.QueryRowContext(l.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_data_written'").Scan(&name, &sum))
	rows, err := l.db.QueryContext(l.Context(), "SHOW BINARY LOGS")
	pipelinetest.Must(l, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var encrypted string
		pipelinetest.Must(l, rows.Scan(&name, &bytes, &encrypted))
		sum += bytes
	}
	pipelinetest.Must(l, rows.Err())
	return sum
}
