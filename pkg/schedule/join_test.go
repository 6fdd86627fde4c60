package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// foreign opens a handle of the service's own, as a service would: without any of our guards.
func foreign(t testing.TB, w *world) *sql.DB {
	t.Helper()
	return foreignAt(t, w, "READ-COMMITTED")
}

func foreignAt(t testing.TB, w *world, isolation string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(w.store.DSN)
	pipelinetest.Must(t, err)
	cfg.Params = map[string]string{pipelinetest.IsolationVariable(t): "'" + isolation + "'"}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestJoinCommitsWithTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 1)
	ctx := t.Context()
	db := foreign(t, w)
	for name, own := range map[string]func() schedule.SQLTx{
		"sql": func() schedule.SQLTx { return begin(t, db) },
		"sqlx": func() schedule.SQLTx {
			tx, err := sqlx.NewDb(db, "mysql").Beginx()
			pipelinetest.Must(t, err)
			return tx
		},
	} {
		tx := own()
		pipelinetest.Must(t, add(ctx, tx, 0))
		j := w.Join(tx)
		row, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		moved, err := j.Shift(ctx, row.ID, -time.Minute)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, insideOf(j.Tx).Ledger().Record(ctx))
		if w.exists(t, row.ID) {
			t.Errorf("%s: the task was there before the commit", name)
		}
		pipelinetest.Must(t, j.Commit(ctx))
		if diff := cmp.Diff([]int64{2}, w.put(row.ID)); diff != "" {
			t.Errorf("%s: versions put (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]string{movedBy(-time.Minute, moved)}, w.life(t, row.ID)); diff != "" {
			t.Errorf("%s: history (-want +got):\n%s", name, diff)
		}
	}
	if got := w.store.Number("SELECT n FROM counters"); got != 2 {
		t.Errorf("counter is %d, want 2", got)
	}
	rolled := begin(t, db)
	j := w.Join(rolled)
	row, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, rolled.Rollback())
	wantIs(t, j.Commit(ctx), sql.ErrTxDone)
	if len(w.put(row.ID)) > 0 {
		t.Error("a rolled-back task was put")
	}
}

func TestJoinOnSQLite(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewSQLite(t, "test"))
	tx, err := w.store.DB().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	j := w.Join(tx)
	row, err := j.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	_, err = j.Cancel(t.Context(), row.ID)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, j.Commit(t.Context()))
	if got := w.store.Row(row.ID).State; got != task.Cancelled {
		t.Errorf("state is %v, want cancelled", got)
	}
}

// At another isolation a change would not see what was committed since the transaction's first read: a stop would leave a task.
func TestJoinRefusesOtherIsolations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.recur(t, "breakfast", weekly, 1, recur.Policy{})
	for _, level := range []string{"READ-UNCOMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		for name, change := range map[string]func(j *schedule.Joined) error{
			"Schedule": func(j *schedule.Joined) error {
				_, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
				return err
			},
			"CancelOwner":     func(j *schedule.Joined) error { _, err := j.CancelOwner(ctx, "ann", ""); return err },
			"StopRecurrences": func(j *schedule.Joined) error { _, err := j.StopRecurrences(ctx, "ann"); return err },
		} {
			j := w.Join(begin(t, foreignAt(t, w, level)))
			err := change(j)
			var setting *store.SettingError
			if !errors.As(err, &setting) || setting.Value != level || schedule.IsRetryable(err) {
				t.Errorf("%s at %s: got %v, want an error that names the level", name, level, err)
			}
			wantIs(t, j.Commit(ctx), err)
		}
	}
	if n := len(w.pending(t, "ann")); n != 1 {
		t.Errorf("%d tasks are pending, want the recurrence's", n)
	}
}

func TestSwallowedDeadlockInJoin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after bool }{
		"before the first change": {false, true},
		"between two changes":     {true, true},
		"after the last change":   {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counters(t, 40)
			ctx := t.Context()
			tx := begin(t, foreign(t, w))
			j := w.Join(tx)
			first, second := meal.New("ann", 1, task.In(time.Hour)), meal.New("ann", 2, task.In(time.Hour))
			if test.before {
				_, err := j.Schedule(ctx, first)
				pipelinetest.Must(t, err)
			}
			lost := deadlock(t, w, func(id int) error { return add(ctx, tx, id) })
			if !schedule.IsRetryable(lost) {
				t.Fatalf("the deadlock came out as %v", lost)
			}
			if test.after {
				_, err := j.Schedule(ctx, second) // the deadlock was swallowed
				wantIs(t, err, schedule.ErrRolledBack)
			}
			err := j.Commit(ctx)
			wantIs(t, err, schedule.ErrRolledBack)
			if !schedule.IsRetryable(err) {
				t.Errorf("%v is not retryable", err)
			}
			if w.exists(t, first.ID()) || w.exists(t, second.ID()) {
				t.Error("a task of the lost transaction exists")
			}
			if len(w.put(first.ID()))+len(w.put(second.ID())) > 0 {
				t.Error("a task of the lost transaction was put")
			}
		})
	}
}

func TestFailedChangeEndsTheJoinedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 1)
	ctx := t.Context()
	row := w.make(t, "ann")
	holder, err := w.store.Begin(ctx)
	pipelinetest.Must(t, err)
	defer func() { _ = holder.Rollback() }()
	_, err = w.store.Lock(ctx, holder, []task.ID{row.ID})
	pipelinetest.Must(t, err)
	tx := begin(t, foreign(t, w))
	_, err = tx.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, add(ctx, tx, 0))
	j := w.Join(tx)
	_, err = j.Cancel(ctx, row.ID)
	wantIs(t, err, task.ErrRunning)
	wantIs(t, j.Commit(ctx), task.ErrRunning) // swallowed above
	if got := w.store.Number("SELECT n FROM counters"); got != 0 {
		t.Errorf("counter is %d, want 0: the cancel did not happen, so nothing may", got)
	}
}

func TestCallersSavepointsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	db := foreign(t, w)
	tx := begin(t, db)
	j := w.Join(tx)
	kept, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	_, err = tx.ExecContext(ctx, "SAVEPOINT theirs")
	pipelinetest.Must(t, err)
	mark := insideOf(j.Tx).Ledger().Mark()
	undone, err := j.Schedule(ctx, meal.New("ann", 2, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT theirs")
	pipelinetest.Must(t, err)
	insideOf(j.Tx).Ledger().Rewind(mark)
	pipelinetest.Must(t, j.Commit(ctx))
	if !w.exists(t, kept.ID) || w.exists(t, undone.ID) || len(w.put(undone.ID)) > 0 {
		t.Error("the savepoint did not hold")
	}

	tx = begin(t, db)
	_, err = tx.ExecContext(ctx, "SAVEPOINT earlier")
	pipelinetest.Must(t, err)
	j = w.Join(tx)
	lost, err := j.Schedule(ctx, meal.New("ann", 3, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT earlier")
	pipelinetest.Must(t, err)
	wantIs(t, j.Commit(ctx), schedule.ErrRolledBack)
	if w.exists(t, lost.ID) || len(w.put(lost.ID)) > 0 {
		t.Error("a task taken back exists or was put")
	}
}

func TestIndexAfterAFrameworksCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	db := foreign(t, w)
	schedules := func(end func(tx *sql.Tx) error) (*schedule.Joined, task.ID) {
		tx := begin(t, db)
		j := w.Join(tx)
		row, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, end(tx))
		return j, row.ID
	}
	j, id := schedules((*sql.Tx).Commit)
	pipelinetest.Must(t, j.Index(ctx))
	if diff := cmp.Diff([]int64{1}, w.put(id)); diff != "" {
		t.Errorf("versions put (-want +got):\n%s", diff)
	}
	j, id = schedules((*sql.Tx).Rollback)
	wantIs(t, j.Index(ctx), schedule.ErrRolledBack)
	if len(w.put(id)) > 0 {
		t.Error("a rolled-back task was put")
	}
	j, id = schedules((*sql.Tx).Commit)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	pipelinetest.Must(t, j.Index(gone)) // the rows can't be read
	pipelinetest.Await(t, "compensation", func() bool { return w.compensated(id) })
}

// What a framework's inner transaction took back to its savepoint says nothing about the outer one, which is committed.
func TestIndexAfterAnInnerRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	db := foreign(t, w)
	run := func(tx *sql.Tx, statement string) {
		_, err := tx.ExecContext(ctx, statement)
		pipelinetest.Must(t, err)
	}
	var standing []task.ID
	for name, c := range map[string]struct {
		before, after, moves bool
		lost                 bool
	}{
		"one before":                {before: true},
		"one after":                 {after: true},
		"the same one moved":        {moves: true},
		"nothing else of duetime's": {lost: true},
	} {
		tx := begin(t, db)
		j := w.Join(tx)
		schedules := func() task.ID {
			row, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
			pipelinetest.Must(t, err)
			return row.ID
		}
		var kept []task.ID
		if c.before || c.moves {
			kept = append(kept, schedules())
		}
		run(tx, "SAVEPOINT inner_one")
		var undone task.ID
		if c.moves {
			_, err := j.Shift(ctx, kept[0], time.Minute)
			pipelinetest.Must(t, err)
		} else {
			undone = schedules()
		}
		run(tx, "ROLLBACK TO SAVEPOINT inner_one")
		if c.after {
			kept = append(kept, schedules())
		}
		pipelinetest.Must(t, tx.Commit())
		err := j.Index(ctx)
		if schedule.IsRetryable(err) || errors.Is(err, schedule.ErrRolledBack) != c.lost || (err != nil) != c.lost {
			t.Errorf("%s: Index answers %v, retryable %v", name, err, schedule.IsRetryable(err))
		}
		for _, id := range kept {
			if diff := cmp.Diff([]int64{1}, w.put(id)); diff != "" {
				t.Errorf("%s: versions put (-want +got):\n%s", name, diff)
			}
		}
		if !undone.IsZero() && len(w.put(undone)) > 0 {
			t.Errorf("%s: a task that was taken back was put", name)
		}
		standing = append(standing, kept...)
	}
	w.Close(ctx) // writes the lines that wait
	for _, id := range standing {
		if got := w.life(t, id); len(got) > 0 {
			t.Errorf("told of a change that was taken back: %v", got)
		}
	}
}

// A framework's inner transaction is rolled back on the framework's own handle, and the service goes on to Commit.
func TestCommitAfterAnInnerRollback(t *testing.T) {
	t.Parallel()
	const back, keep = "ROLLBACK TO SAVEPOINT inner_one", "RELEASE SAVEPOINT inner_one"
	cancel := func(ctx context.Context, j *schedule.Joined, id task.ID) error {
		_, err := j.Cancel(ctx, id)
		return err
	}
	move := func(ctx context.Context, j *schedule.Joined, id task.ID) error {
		_, err := j.Shift(ctx, id, time.Minute)
		return err
	}
	type change = func(context.Context, *schedule.Joined, task.ID) error
	w := newWorld(t)
	ctx := t.Context()
	lines := map[task.ID][]string{}
	for name, c := range map[string]struct {
		inner   []change
		end     string
		after   []change
		version int64 // of the committed row
		lines   []string
	}{
		"cancelled":                   {inner: []change{cancel}, end: back, version: 1},
		"moved":                       {inner: []change{move}, end: back, version: 1},
		"cancelled, then moved":       {inner: []change{cancel}, end: back, after: []change{move}, version: 2},
		"moved twice, then cancelled": {inner: []change{move, move}, end: back, after: []change{cancel}, version: 2},
		"nothing taken back":          {inner: []change{cancel}, end: keep, version: 2, lines: []string{"service cancelled "}},
	} {
		there := w.make(t, "ann")
		tx, err := w.store.DB().BeginTx(ctx, nil)
		pipelinetest.Must(t, err)
		j := w.Join(tx)
		made, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		_, err = tx.ExecContext(ctx, "SAVEPOINT inner_one")
		pipelinetest.Must(t, err)
		for _, do := range c.inner {
			pipelinetest.Must(t, do(ctx, j, there.ID))
		}
		_, err = tx.ExecContext(ctx, c.end)
		pipelinetest.Must(t, err)
		for _, do := range c.after {
			pipelinetest.Must(t, do(ctx, j, there.ID))
		}
		pipelinetest.Must(t, j.Commit(ctx))
		if diff := cmp.Diff([]int64{1, c.version}, w.put(there.ID)); diff != "" { // the first is make's
			t.Errorf("%s: versions put (-want +got):\n%s", name, diff)
		}
		if got := w.store.Row(there.ID).Version; got != c.version {
			t.Errorf("%s: version %d is committed, want %d", name, got, c.version)
		}
		if diff := cmp.Diff([]int64{1}, w.put(made.ID)); diff != "" {
			t.Errorf("%s: versions put of the new task (-want +got):\n%s", name, diff)
		}
		lines[there.ID] = append([]string{}, c.lines...)
	}
	w.Close(ctx) // writes the lines that wait
	for id, want := range lines {
		if diff := cmp.Diff(want, w.life(t, id)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	}
}

// Commit and Index don't read the rows of recurrences: their lines are written if no task's change was taken back.
func TestJoinedRecurrenceHasItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	var ids []task.ID
	for name, end := range map[string]func(*sql.Tx, *schedule.Joined) error{
		"commit": func(_ *sql.Tx, j *schedule.Joined) error { return j.Commit(ctx) },
		"index": func(tx *sql.Tx, j *schedule.Joined) error {
			pipelinetest.Must(t, tx.Commit())
			return j.Index(ctx)
		},
	} {
		tx, err := w.store.DB().BeginTx(ctx, nil)
		pipelinetest.Must(t, err)
		j := w.Join(tx)
		r, err := j.Recur(ctx, name, recur.Every(time.Hour), meal.Recurring("ann", 1), recur.Policy{})
		pipelinetest.Must(t, err)
		spec := meal.New("ann", 1, task.In(time.Hour))
		for range 2 { // the second finds the first's task
			_, err = j.Schedule(ctx, spec)
			pipelinetest.Must(t, err)
		}
		pipelinetest.Must(t, end(tx, j))
		ids = append(ids, r.ID)
	}
	w.Close(ctx) // writes the lines that wait
	for _, id := range ids {
		if len(w.life(t, id)) != 1 {
			t.Errorf("got the lines %v, want one", w.life(t, id))
		}
	}
}

// Rows in another schema would belong to another deployment, or to none: the transaction is refused before anything is written.
func TestJoinInAnotherSchema(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	for name, schema := range map[string]*world{"with tables of its own": other, "its own": w} {
		tx := begin(t, foreign(t, schema))
		_, err := w.Join(tx).Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour)))
		if refused := errors.Is(err, store.ErrSchema); refused != (schema == other) {
			t.Errorf("schema %s: got %v", name, err)
		}
	}
	tx := begin(t, foreign(t, w))
	_, err := tx.ExecContext(t.Context(), "USE information_schema") // it has no table of ours
	pipelinetest.Must(t, err)
	if _, err = w.Join(tx).Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour))); !errors.Is(err, store.ErrSchema) {
		t.Errorf("a schema without tables: got %v", err)
	}
}

// A service whose configuration names another namespace would write its entries where nobody looks.
func TestRowsOfAnotherNamespaceAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := worldtest.OpenStore(t, w.store.DSN, store.Options{Namespace: "coupons"})
	c, err := schedule.New(schedule.Config{Layout: s.Layout}, s, w, w)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	for range 2 {
		if _, err := c.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour))); !errors.Is(err, store.ErrNamespace) {
			t.Errorf("one task: got %v, want ErrNamespace", err)
		}
		err = c.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour)))
			return err
		})
		if !errors.Is(err, store.ErrNamespace) {
			t.Errorf("in a transaction: got %v, want ErrNamespace", err)
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}
