package statement_test

import (
	"testing"

	"github.com/duetime/duetime/internal/statement"
)

func TestEffectOf(t *testing.T) {
	t.Parallel()
	for effect, texts := range map[statement.Effect][]string{
		statement.Plain: {
			"SELECT 1", " select 1;", "(SELECT 1)", "-- name: GetPet :one\nSELECT * FROM pets", "# x\nUPDATE pets SET a = ';'",
			"INSERT INTO notes VALUES ('COMMIT; DROP', \"@x\", `@y;`)", "WITH c AS (SELECT 1) SELECT * FROM c", "DO 1;\n-- the end;",
			"SELECT /*+ MAX_EXECUTION_TIME(9) */ @@global.read_only", "SELECT 'it''s', 'a\\'b'", "SELECT 5--1",
			"SELECT /*!80000 @@transaction_isolation*/ /*M!100000 @@tx_isolation*/", "SELECT 1 /*!50000 FOR UPDATE*/",
			"/*M!100100 SET STATEMENT max_statement_time = 9.000 FOR*/ SELECT 1", "SET STATEMENT max_statement_time=1 FOR SELECT 1",
		},
		statement.Nests: {
			"SAVEPOINT a", "-- name: Back :exec\nROLLBACK TO a\n", "ROLLBACK # undo\n TO SAVEPOINT `a b`", "RELEASE SAVEPOINT a;",
		},
		statement.Ends: {
			"COMMIT", " /* now */ commit and chain", "/*!50000 COMMIT */", "ROLLBACK", "ROLLBACK AND CHAIN", "; ;COMMIT", "DROP TABLE a",
			"CREATE OR REPLACE VIEW seen AS SELECT 'temporary' AS x", "SET @@session.autocommit = 1", "SET autocommit=0", "SET PASSWORD = 'x'",
			"SET STATEMENT max_statement_time = 10 FOR TRUNCATE scratch", "LOAD INDEX INTO CACHE scratch", "SET DEFAULT ROLE NONE TO root@'%'",
			"--\tnow\nTRUNCATE a",
		},
		statement.Opaque: {
			"", "-- nothing", "DO 1; COMMIT", "INSERT INTO a VALUES (';'); TRUNCATE a", "SELECT 1 /*! ; COMMIT */", "SAVEPOINT a; ROLLBACK TO a",
			"CALL p()", "EXECUTE p", "PREPARE p FROM 'COMMIT'", "SET @x = 1", "SET time_zone = '+08:00'", "SELECT 1 INTO @x", "SELECT @a := 1",
			"SELECT GET_LOCK('a', 1)", "USE other", "CREATE TEMPORARY TABLE a (b INT)", "CREATE OR REPLACE TEMPORARY TABLE a (b INT)",
			"DROP TEMPORARY TABLE a", "SET STATEMENT max_statement_time = 9, time_zone = '+08:00' FOR SELECT 1", "HANDLER a OPEN", "KILL 1",
			`SELECT 'a\'; COMMIT -- '`, `SELECT "a\" ; COMMIT; -- "`, "ROLLBACK WORK TO", "SAVEPOINT a b", "LOAD DATA INFILE 'x' INTO TABLE a",
			"/*M!100100 SET STATEMENT max_statement_time = 9 FOR*/ SET @x = 1", "`COMMIT`", "ROLLBACK TO /*! a; COMMIT */",
			"INSERT INTO a (b, c) VALUES (1, 2), (3, 4), (5, 6); COMMIT", "SELECT a, b, c, d, e, f, g, get_lock('x', 1)",
			"SELECT a, b, c, d, e, f, h, 'x' INTO @y", "/*! SELECT */ 1", "/*!99999 SELECT */ CALL p()", "SELECT /*!99999 ' */ ; COMMIT /* ' */", "SELECT /*!99999 -- */ ; COMMIT", "ROLLBACK TO /*!99999 a*/ b",
			"SELECT /*!", "/*!*/", "SELECT /*!' */ ; COMMIT; '", "SELECT /*! @a := 1 */",
		},
	} {
		for _, text := range texts {
			if got := statement.EffectOf(text); got != effect {
				t.Errorf("%q: got %v, want %v", text, got, effect)
			}
		}
	}
}

// No text makes the reading fail or go on without end.
func FuzzEffectOf(f *testing.F) {
	for _, text := range []string{"SELECT 1", "/*! x */", "'a\\", "ROLLBACK TO `a", "-- x", "@@a.b := 'c' /*M!1*/;"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		effect, _ := statement.Describe(text)
		if name, _ := statement.Savepoint(text); name != "" && effect == statement.Plain {
			t.Errorf("%q is plain, and about a savepoint", text)
		}
	})
}
