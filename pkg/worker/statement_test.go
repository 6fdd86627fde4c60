package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
			wk := w.worker(mux, worker.Config{})
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
	got := w.pass(w.worker(mux, worker.Config{}), tasks...)
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
			w.pass(w.worker(mux, worker.Config{}), tasks...)
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
