package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A statement that would end the transaction is refused: the handler has failed, and its mates' effects come once.
func TestHandlerCannotEndItsTransaction(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"COMMIT": "COMMIT", "small letters, a comment before": " /* now */ commit and chain", "what the server runs out of a comment": "/*!50000 COMMIT */",
		"ROLLBACK": "ROLLBACK", "BEGIN": "BEGIN", "autocommit": "SET @@session.autocommit = 1", "LOCK TABLES": "LOCK TABLES effects WRITE",
		"DDL": "CREATE TABLE mine (a INT)", "TRUNCATE": "TRUNCATE counters", "a comment of a line": "-- now\nCOMMIT",
		"a procedure that commits": "CALL commits()", "a procedure that rolls back": "CALL rolls_back()",
		"a prepared COMMIT": "EXECUTE IMMEDIATE_COMMIT",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.Exec("CREATE PROCEDURE commits() COMMIT")
			w.store.Exec("CREATE PROCEDURE rolls_back() ROLLBACK")
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if tk.Payload.Word != "2" {
					return effect(ctx, tx, tk)
				}
				if strings.HasPrefix(statement, "EXECUTE") {
					if _, err := tx.ExecContext(ctx, "PREPARE IMMEDIATE_COMMIT FROM 'COMMIT'"); err != nil {
						return err
					}
				}
				_, _ = tx.ExecContext(ctx, statement)
				return nil // passed over
			})
			tasks := w.due(meal, 5)
			wk := w.worker(mux, engine.Config{})
			got := w.pass(wk, tasks...)
			opaque := strings.HasPrefix(statement, "CALL") || strings.HasPrefix(statement, "EXECUTE")
			for i, made := range tasks {
				if i == 2 {
					continue
				}
				want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
				want(t, fmt.Sprintf("%d: state", i), w.store.Row(made.ID).State, task.Done)
				want(t, fmt.Sprintf("%d: result", i), got[made.ID].Result, "done")
				want(t, fmt.Sprintf("%d: attempts", i), w.store.Row(made.ID).Attempt, 0)
			}
			if opaque {
				want(t, "attempts of the one that ended the transaction", w.store.Row(tasks[2].ID).Attempt, 1)
				want(t, "says why", strings.Contains(w.store.Row(tasks[2].ID).LastError, "ended the transaction"), true)
			}
		})
	}
}

// multiStatements is newWorld with a DSN that lets one text have several statements.
func multiStatements(t *testing.T) *world {
	t.Helper()
	own := worldtest.NewStore(t, "test", store.Options{})
	return onStore(t, worldtest.OpenStore(t, own.DSN+"?multiStatements=true", store.Options{LockWait: time.Second}))
}

// By whatever words a handler ends its transaction, it has failed, and its mates' effects come once.
func TestHandlerEndsItsTransactionInOtherWords(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"DO 1; COMMIT", "INSERT INTO counters VALUES ('x', 1); TRUNCATE scratch", "CREATE OR REPLACE VIEW seen AS SELECT 'temporary' AS x",
		"SET STATEMENT max_statement_time = 10 FOR TRUNCATE scratch", "LOAD INDEX INTO CACHE scratch", "SET DEFAULT ROLE NONE TO root@'%'",
		"SELECT 1 /*! ; COMMIT */", "SET @a = 1; COMMIT; BEGIN",
	} {
		for name, answer := range map[string]error{"fails": errors.New("sick"), "succeeds": nil} {
			t.Run(statement+" and "+name, func(t *testing.T) {
				t.Parallel()
				w := multiStatements(t)
				w.store.Exec("CREATE TABLE scratch (a INT)")
				mux := worker.NewMux()
				worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
					if tk.Payload.Word != "2" {
						return effect(ctx, tx, tk)
					}
					if _, err := tx.ExecContext(ctx, statement); err != nil {
						return err
					}
					return answer
				})
				tasks := w.due(meal, 5)
				w.passAll(w.worker(mux, engine.Config{}), tasks...)
				for i, made := range tasks {
					if i == 2 {
						continue
					}
					want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
					want(t, fmt.Sprintf("%d: state", i), w.store.Row(made.ID).State, task.Done)
				}
			})
		}
	}
}

// A nested transaction is undone after a batch-mate was marked done: the mate keeps its mark and its effect, by whatever words.
func TestNestedTransactionUndoesNoMate(t *testing.T) {
	t.Parallel()
	exec := func(ctx context.Context, tx *worker.Tx, statement string) error {
		_, err := tx.ExecContext(ctx, statement)
		return err
	}
	query := func(ctx context.Context, tx *worker.Tx, statement string) error {
		rows, err := tx.QueryContext(ctx, statement)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		return rows.Err()
	}
	for name, c := range map[string]struct {
		say       func(ctx context.Context, tx *worker.Tx, statement string) error
		set, back string
		follows   bool // what the handler did to tasks is undone too, and the handler succeeds
	}{
		"plain":             {exec, "SAVEPOINT sp", "ROLLBACK TO SAVEPOINT sp", true},
		"comments of lines": {exec, "-- name: Set :exec\nSAVEPOINT sp\n", "-- name: Back :exec\nROLLBACK # undo\n TO SAVEPOINT sp\n", true},
		"a blank in a name": {exec, "SAVEPOINT `a b`", "ROLLBACK TO SAVEPOINT `a b`", true},
		"an accent":         {exec, "SAVEPOINT `é`", "ROLLBACK TO SAVEPOINT `E`", false},
		"a query":           {query, "SAVEPOINT sp", "ROLLBACK TO SAVEPOINT sp", false},
		"several":           {exec, "DO 1; SAVEPOINT sp", "DO 1; ROLLBACK TO sp", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := multiStatements(t)
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if tk.Payload.Word == "1" {
					if err := c.say(ctx, tx, c.set); err != nil {
						return err
					}
					if _, err := tx.Shift(ctx, tk.ID, time.Hour); err != nil {
						return err
					}
					if err := c.say(ctx, tx, c.back); err != nil {
						return err
					}
				}
				return effect(ctx, tx, tk)
			})
			tasks := w.due(meal, 2)
			wk := w.worker(mux, engine.Config{})
			w.passAll(wk, tasks...)
			w.passAll(wk, tasks...) // whatever became of them, they are looked at once more
			for i, made := range tasks {
				row := w.store.Row(made.ID)
				if i == 1 && !c.follows {
					want(t, "effects without the move", w.effects(made.ID), 0)
					want(t, "attempts", row.Attempt > 0, true)
					continue
				}
				want(t, fmt.Sprintf("%d: state (%s)", i, row.LastError), row.State, task.Done)
				want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
			}
		})
	}
}

// Savepoints of a handler end with it: no other handler goes back to them.
func TestSavepointEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if tk.Payload.Word == "1" {
				_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT nested")
				return err
			}
			if _, err := tx.ExecContext(ctx, "SAVEPOINT nested"); err != nil {
				return err
			}
			return effect(ctx, tx, tk)
		})
		tasks := w.due(meal, 2)
		w.pass(w.worker(mux, engine.Config{}), tasks...)
		want(t, "state of the mate", w.store.Row(tasks[0].ID).State, task.Done)
		want(t, "effects of the mate", w.effects(tasks[0].ID), 1)
		want(t, "attempts of the one that goes back", w.store.Row(tasks[1].ID).Attempt, 1)
	})
}

// What a handler leaves in its session no other handler sees.
func TestSessionEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, ask, want string }{
		"time zone":       {"SET time_zone = '+08:00'", "SELECT @@time_zone", "+00:00"},
		"clock":           {"SET timestamp = 86400", "SELECT YEAR(UTC_TIMESTAMP()) > 2000", "1"},
		"temporary table": {"CREATE TEMPORARY TABLE counters (a INT)", "SELECT COUNT(*) FROM counters WHERE name = 'x'", "0"},
		"in a procedure":  {"CALL zone()", "SELECT @@time_zone", "+00:00"},
		"several":         {"DO 1; SET timestamp = 86400", "SELECT YEAR(UTC_TIMESTAMP()) > 2000", "1"},
		"a lock":          {"SELECT GET_LOCK('mine', 0)", "SELECT COALESCE(IS_USED_LOCK('mine') = CONNECTION_ID(), 0)", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := multiStatements(t)
			w.store.Exec("CREATE PROCEDURE zone() SET time_zone = '+08:00'")
			var seen string
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if tk.Payload.Word == "0" {
					_, err := tx.ExecContext(ctx, c.set)
					return err
				}
				return tx.GetContext(ctx, &seen, c.ask)
			})
			w.passAll(w.worker(mux, engine.Config{}), w.due(meal, 2)...)
			want(t, c.ask, seen, c.want)
		})
	}
}

// What a handler may say to its connection, it may.
func TestHandlerMaySayWhatARollbackUndoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.Exec("CREATE PROCEDURE adds(id VARCHAR(36)) INSERT INTO effects VALUES (id, 'called')")
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		for _, statement := range []string{
			"SAVEPOINT mine", "INSERT INTO effects VALUES ('undone', '')", "ROLLBACK TO SAVEPOINT mine", "RELEASE SAVEPOINT mine",
			"CREATE TEMPORARY TABLE IF NOT EXISTS scratch (a INT)", "INSERT INTO scratch VALUES (1)", "SET @mine = 1", "DO 1",
			"CALL adds('" + tk.ID.String() + "')", "(SELECT 1)", "WITH c AS (SELECT 1) SELECT * FROM c",
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	tasks := w.due(meal, 5)
	got := w.passAll(w.worker(mux, engine.Config{}), tasks...)
	for _, made := range tasks {
		want(t, fmt.Sprintf("result (%v)", got[made.ID].Err), got[made.ID].Result, "done")
		want(t, "effects", w.effects(made.ID), 1)
	}
	want(t, "undone", w.store.Number("SELECT COUNT(*) FROM effects WHERE task_id = 'undone'"), 0)
}

// A ROLLBACK TO or a RELEASE of a savepoint of before the CALL removes the savepoint by which duetime sees that the transaction
// still stands. The handler has ended nothing.
func TestCallWithinANestedTransactionEndsNothing(t *testing.T) {
	t.Parallel()
	const commits = "CALL commits()"
	for name, c := range map[string]struct {
		statements []string
		ended      bool
	}{
		"rolled back":           {[]string{"SAVEPOINT mine", "CALL adds('undone')", "ROLLBACK TO SAVEPOINT mine"}, false},
		"released":              {[]string{"SAVEPOINT mine", "CALL adds('kept')", "RELEASE SAVEPOINT mine"}, false},
		"set after the call":    {[]string{"CALL adds('kept')", "SAVEPOINT mine", "CALL adds('undone')", "ROLLBACK TO mine"}, false},
		"set once more":         {[]string{"SAVEPOINT mine", "CALL adds('kept')", "SAVEPOINT mine", "ROLLBACK TO mine"}, false},
		"ended after it":        {[]string{"SAVEPOINT mine", "CALL adds('undone')", "ROLLBACK TO mine", commits}, true},
		"ended after a release": {[]string{"SAVEPOINT mine", "CALL adds('undone')", "RELEASE SAVEPOINT mine", commits}, true},
		"ended within it":       {[]string{"SAVEPOINT mine", commits, "ROLLBACK TO mine"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.Exec("CREATE PROCEDURE adds(id VARCHAR(36)) INSERT INTO effects VALUES (id, 'called')")
			w.store.Exec("CREATE PROCEDURE commits() COMMIT")
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if tk.Payload.Word == "1" {
					for _, statement := range c.statements {
						_, _ = tx.ExecContext(ctx, statement) // passed over
					}
				}
				return effect(ctx, tx, tk)
			})
			tasks := w.due(meal, 3)
			w.pass(w.worker(mux, engine.Config{}), tasks...)
			for i, made := range tasks {
				row, attempts := w.store.Row(made.ID), 0
				if i == 1 && c.ended {
					attempts = 1
				} else {
					want(t, fmt.Sprintf("%d: state", i), row.State, task.Done)
					want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
				}
				want(t, fmt.Sprintf("%d: attempts (%s)", i, row.LastError), row.Attempt, attempts)
			}
			if !c.ended {
				want(t, "undone", w.store.Number("SELECT COUNT(*) FROM effects WHERE task_id = 'undone'"), 0)
				want(t, "batches tried again", w.metric("duetime_batches_retried_total"), 0)
			}
		})
	}
}
