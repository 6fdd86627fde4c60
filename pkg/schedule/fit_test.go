package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Copies of what others ask of a handle, so that a Tx is known to fit without importing them.
type (
	// sqlcDBTX is DBTX, as sqlc writes it.
	sqlcDBTX interface {
		ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
		PrepareContext(context.Context, string) (*sql.Stmt, error)
		QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
		QueryRowContext(context.Context, string, ...interface{}) *sql.Row
	}
	// gormConnPool is gorm.ConnPool.
	gormConnPool interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		ExecContext(ctx context.Context, query string, args ...interface{}) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...interface{}) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...interface{}) *sql.Row
	}
	// gormTx is gorm.Tx.
	gormTx interface {
		gormConnPool
		Commit() error
		Rollback() error
		StmtContext(ctx context.Context, stmt *sql.Stmt) *sql.Stmt
	}
	// bunIConn is bun.IConn.
	bunIConn interface {
		QueryContext(ctx context.Context, query string, args ...interface{}) (*sql.Rows, error)
		ExecContext(ctx context.Context, query string, args ...interface{}) (sql.Result, error)
		QueryRowContext(ctx context.Context, query string, args ...interface{}) *sql.Row
	}
	// entExecQuerier is dialect/sql.ExecQuerier of ent.
	entExecQuerier interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
)

var (
	_ sqlcDBTX        = (*schedule.Tx)(nil)
	_ gormConnPool    = (*schedule.Tx)(nil)
	_ bunIConn        = (*schedule.Tx)(nil)
	_ entExecQuerier  = (*schedule.Tx)(nil)
	_ sqlx.ExtContext = (*schedule.Tx)(nil)
	_ gormConnPool    = (*schedule.Joined)(nil)

	_ schedule.Joinable = gormConnPool(nil)
	_ schedule.Joinable = schedule.SQLTx(nil)
)

// preparedTX is gorm.PreparedStmtTX: what is executed is prepared, which a server refuses for SAVEPOINT.
type preparedTX struct {
	Tx             gormTx
	PreparedStmtDB *struct{}
}

func (p *preparedTX) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return p.Tx.PrepareContext(ctx, query)
}

func (p *preparedTX) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.Tx.PrepareContext(ctx, query) //nolint:sqlclosecheck // it ends with the transaction
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p *preparedTX) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.Tx.QueryContext(ctx, query, args...)
}

func (p *preparedTX) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.Tx.QueryRowContext(ctx, query, args...)
}
func (p *preparedTX) Commit() error   { return p.Tx.Commit() }
func (p *preparedTX) Rollback() error { return p.Tx.Rollback() }

// bunTx is bun.Tx: it has a transaction of database/sql in it.
type bunTx struct {
	ctx context.Context
	*sql.Tx
}

func TestPreparedStatementInTx(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 1)
	ctx := t.Context()
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		s, err := tx.PrepareContext(ctx, "UPDATE counters SET n = n + ? WHERE id = 0")
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		for range 3 {
			if _, err := s.ExecContext(ctx, 2); err != nil {
				return err
			}
		}
		_, err = tx.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
		return err
	}))
	if got := w.store.Number("SELECT n FROM counters"); got != 6 {
		t.Errorf("counter is %d, want 6", got)
	}
}

// A nested transaction that is rolled back takes its tasks along: none of them is put, and the outer's are.
func TestSavepointOfTheServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	moved := w.make(t, "bob")
	var kept, gone, after task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		in := func(to *task.Task) {
			if err == nil {
				*to, err = tx.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
			}
		}
		run := func(text string) {
			if err == nil {
				_, err = tx.ExecContext(ctx, text)
			}
		}
		in(&kept)
		run("SAVEPOINT sp1")
		in(&gone)
		if err == nil {
			_, err = tx.Cancel(ctx, moved.ID)
		}
		run("ROLLBACK TO SAVEPOINT sp1")
		in(&after)
		return err
	}))
	for name, made := range map[string]struct {
		task task.Task
		want []int64
	}{"before": {kept, []int64{1}}, "within": {gone, nil}, "after": {after, []int64{1}}, "cancelled within": {moved, []int64{1}}} {
		if diff := cmp.Diff(made.want, w.put(made.task.ID)); diff != "" {
			t.Errorf("%s: versions put (-want +got):\n%s", name, diff)
		}
	}
	if w.exists(t, gone.ID) || w.store.Row(moved.ID).State != task.Pending {
		t.Error("what the nested transaction did has stayed")
	}
	if lines := w.life(t, moved.ID); len(lines) > 0 {
		t.Errorf("history of what never happened: %v", lines)
	}
}

func TestJoinOfLibraries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 1)
	ctx := t.Context()
	db := foreign(t, w)
	for name, wrap := range map[string]func(tx *sql.Tx) schedule.Joinable{
		"prepared":         func(tx *sql.Tx) schedule.Joinable { return &preparedTX{Tx: tx} },
		"prepared, nested": func(tx *sql.Tx) schedule.Joinable { return &preparedTX{Tx: &preparedTX2{preparedTX{Tx: tx}}} },
		"bun":              func(tx *sql.Tx) schedule.Joinable { return bunTx{ctx: ctx, Tx: tx} },
		"a plain pool":     func(tx *sql.Tx) schedule.Joinable { return gormConnPool(tx) },
	} {
		own := begin(t, db)
		pipelinetest.Must(t, add(ctx, own, 0))
		j := w.Join(wrap(own))
		row, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		if err := j.Commit(ctx); err != nil {
			t.Errorf("%s: commit: %v", name, err)
		}
		if diff := cmp.Diff([]int64{1}, w.put(row.ID)); diff != "" {
			t.Errorf("%s: versions put (-want +got):\n%s", name, diff)
		}
	}
	if got := w.store.Number("SELECT n FROM counters"); got != 4 {
		t.Errorf("counter is %d, want 4", got)
	}
}

// preparedTX2 is a wrapped one as a plugin may wrap it.
type preparedTX2 struct{ preparedTX }

func (p *preparedTX2) StmtContext(ctx context.Context, s *sql.Stmt) *sql.Stmt {
	return p.Tx.StmtContext(ctx, s)
}

type otherTx struct{ Tx int }

func (otherTx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errors.New("not called")
}
func (otherTx) Commit() error   { return errors.New("not called") }
func (otherTx) Rollback() error { return nil }

// What is no transaction answers an error that names it, to each call.
func TestJoinRefusesOtherTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	var number int
	for name, tx := range map[string]schedule.Joinable{
		"schedule_test.otherTx": otherTx{}, "*sql.DB": foreign(t, w), "*sqlx.DB": w.store.DB(), "<nil>": nil, "*sql.Tx": (*sql.Tx)(nil),
		"*sqlx.Tx": (*sqlx.Tx)(nil), "*schedule_test.preparedTX": &preparedTX{},
	} {
		j := w.Join(tx)
		for call, do := range map[string]func() error{
			"Schedule": func() error { _, err := j.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour))); return err },
			"Cancel":   func() error { _, err := j.Cancel(ctx, row.ID); return err },
			"Exec":     func() error { _, err := j.ExecContext(ctx, "DELETE FROM duetime_tasks"); return err },
			"Query":    func() error { _, err := j.QueryContext(ctx, "SELECT 1"); return err },   //nolint:rowserrcheck,sqlclosecheck // there are none
			"Prepare":  func() error { _, err := j.PrepareContext(ctx, "SELECT 1"); return err }, //nolint:sqlclosecheck // there is none
			"Get":      func() error { return j.GetContext(ctx, &number, "SELECT 1") },
			"Commit":   func() error { return j.Commit(ctx) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "Join("+name+")") || schedule.IsRetryable(err) {
				t.Errorf("%s: %s answers %v, want an error that names the type", name, call, err)
			}
		}
		if err := j.QueryRowContext(ctx, "SELECT 1").Scan(&number); err == nil {
			t.Errorf("%s: a row was read", name)
		}
		pipelinetest.Must(t, j.Index(ctx))
	}
	if got := w.store.Row(row.ID); got.State != task.Pending {
		t.Errorf("the task is %v", got.State)
	}
}
