package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

// hostile are defaults of a server that would break a promise, or make every statement fail. Variables of one product are
// set only there.
var hostile = []string{
	"autocommit = 0", "completion_type = 1", "transaction_isolation = 'REPEATABLE-READ'", "tx_isolation = 'SERIALIZABLE'",
	"transaction_read_only = 1", "tx_read_only = 1", "sql_select_limit = 2", "sql_big_selects = 0", "max_join_size = 1",
	"sql_safe_updates = 1", "unique_checks = 0", "max_execution_time = 1", "max_statement_time = 0.001",
	"range_optimizer_max_mem_size = 10", "in_predicate_conversion_threshold = 2", "innodb_lock_wait_timeout = 1000",
	"lock_wait_timeout = 1000000", "character_set_client = latin1", "character_set_connection = latin1", "character_set_results = latin1",
	"group_concat_max_len = 4", "big_tables = 1", "sql_auto_is_null = 1", "time_zone = '+05:45'",
	"sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
	"sql_mode = CONCAT(@@global.sql_mode, ',EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT')",
}

// hostileServer is the test's own server with those defaults.
func hostileServer(t *testing.T) *pipelinetest.MySQLServer {
	t.Helper()
	server := pipelinetest.OwnMySQL(t, "--loose-character-set-client-handshake=OFF")
	admin := value[*sqlx.DB](t)(sqlx.Open("mysql", server.NewSchema(t)))
	t.Cleanup(func() { must(t, admin.Close()) })
	for _, setting := range hostile {
		err := exec(admin, "SET GLOBAL "+setting)
		if n := number(err); n != 0 && n != 1193 && n != 1231 { // unknown variable, unknown value
			t.Fatalf("SET GLOBAL %s: %v", setting, err)
		}
	}
	return server
}

// Nothing in the pipeline depends on a server's defaults.
func TestHostileDefaults(t *testing.T) {
	t.Parallel()
	dsn := hostileServer(t).NewSchema(t)
	for name, o := range map[string]store.Options{"a service's": {}, "a worker's": {Chain: true, MaxOpen: 2}} {
		s := opened(t, dsn, o)
		migrated(t, s)
		must(t, s.CheckSession(t.Context()))
		must(t, s.CheckMigrations(t.Context(), migrations.Files))
		other := opened(t, dsn, store.Options{})

		specs := make([]task.Spec, 5)
		for i := range specs {
			specs[i] = kind.New("ann é 喂", i, task.At(t0))
		}
		made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), specs))
		if got := value[[]task.Task](t)(other.Get(t.Context(), nil, ids(made))); len(got) != 5 || got[0].Owner != "ann é 喂" {
			t.Fatalf("%s: %d rows of 5 inserted are there for others, of owner %q", name, len(got), got[0].Owner)
		}
		moved := value[task.Task](t)(transition.Move(made[0], t0.Add(1e9), t0))
		must(t, worldtest.Save(t.Context(), s, s.DB(), moved))
		if got := value[[]task.Task](t)(other.Get(t.Context(), nil, ids(made[:1]))); !got[0].RunAt.Equal(moved.RunAt) || got[0].Version != 2 {
			t.Errorf("%s: moved to %v, and reads %v of version %d", name, moved.RunAt, got[0].RunAt, got[0].Version)
		}

		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			rows, now, err := s.LockFree(ctx, tx, ids(made))
			must(t, err)
			must(t, worldtest.Finish(ctx, s, tx, rows, now))
		})
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET last_error = 'after a commit' WHERE state = 1")) // must not begin a transaction
		for _, row := range value[[]task.Task](t)(other.Get(t.Context(), nil, ids(made))) {
			if row.State != task.Done || row.LastError == "" {
				t.Errorf("%s: %s is %v with error %q, want it done and told", name, row.ID, row.State, row.LastError)
			}
		}
		if n := purged(t, s, t0.AddDate(100, 0, 0), 100); n != 5 {
			t.Errorf("%s: %d rows purged, want 5", name, n)
		}
		value[store.Live](t)(s.Live(t.Context(), 1e9))
	}
}

// The store's conformance suite passes on such a server too.
func TestConformanceUnderHostileDefaults(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	server := hostileServer(t)
	t.Run("cases", func(t *testing.T) {
		for name, run := range conformance {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, lent(t, server, "", store.Options{}))
			})
		}
	})
}

// The DSN's values of these variables are overridden, however it spells their names; its values of other variables apply.
func TestDSNDoesNotUndoTheSession(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	s := opened(t, dsn+"?autocommit=0&@@session.completion_type=1&SQL_SELECT_LIMIT=3&sort_buffer_size=65536&charset=latin1"+
		"&sql_mode=%27PIPES_AS_CONCAT%27", store.Options{})
	must(t, s.CheckSession(t.Context()))
	var size int
	var joined string
	must(t, s.DB().QueryRowxContext(t.Context(), "SELECT @@sort_buffer_size, 'a' || 'b'").Scan(&size, &joined))
	if size != 65536 || joined != "ab" {
		t.Errorf("sort_buffer_size is %d and 'a' || 'b' is %s, want what the DSN says", size, joined)
	}
}

// A handler's session variables don't outlive its transaction.
func TestSessionIsRenewedAfterACallersSet(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]store.Options{"plain": {MaxOpen: 1}, "chain": {MaxOpen: 1, Chain: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dsn := openMySQLStore(t, o)
			other := opened(t, dsn, store.Options{})
			pets(t, other)
			for _, set := range []string{
				"SET autocommit = 0", " set session completion_type = 1", "/* why */ SET SESSION TRANSACTION READ ONLY", "SET sql_select_limit = 1",
				"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "USE information_schema", "BEGIN", "LOCK TABLES pets READ",
			} {
				if strings.HasPrefix(set, "SET T") || strings.Contains(set, "autocommit") || set == "BEGIN" || strings.HasPrefix(set, "LOCK") {
					must(t, exec(s.DB(), set)) // outside of a transaction, which would refuse it or be ended by it
				} else {
					inTx(t, s, func(_ context.Context, tx *sqlx.Tx) { must(t, exec(tx, set)) })
				}
				must(t, s.CheckSession(t.Context()))
				before := meals(t, other)
				must(t, exec(s.DB(), "UPDATE pets SET meals = meals + 1 WHERE id = 1"))
				inTx(t, s, func(_ context.Context, tx *sqlx.Tx) {
					must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 2"))
				})
				if got := meals(t, other) - before; got != 2 {
					t.Errorf("after %s: %d of 2 updates are there for others", set, got)
				}
			}
		})
	}
}

func TestSettingThatCanNotBeSet(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t, "--log-bin=bin", "--server-id=1", "--binlog-format=STATEMENT")
	s := opened(t, server.NewSchema(t), store.Options{})
	for what, err := range map[string]error{
		"check": s.CheckSession(t.Context()), "migrate": s.Migrate(t.Context(), migrations.Files, "test", shards),
	} {
		wrong, ok := errors.AsType[*store.SettingError](err)
		if !ok || wrong.Name != "binlog_format" || !strings.Contains(err.Error(), "binlog_format is STATEMENT") {
			t.Errorf("%s: %v, want a SettingError that names binlog_format", what, err)
		}
	}
}

// If a statement's caller has left, the server gets its connection back within seconds, even though a table is locked.
func TestLockedTableKeepsNoConnections(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	holder := value[*sqlx.DB](t)(sqlx.Open("mysql", dsn))
	t.Cleanup(func() { must(t, holder.Close()) })
	lock := value[*sqlx.Conn](t)(holder.Connx(t.Context()))
	defer func() { _ = lock.Close() }()
	must(t, exec(lock, "LOCK TABLES duetime_tasks WRITE"))
	for range 5 {
		ctx, leave := context.WithTimeout(t.Context(), 50e6)
		_, err := s.DB().ExecContext(ctx, "UPDATE duetime_tasks SET version = 1")
		leave()
		if err == nil {
			t.Fatal("changed a locked table")
		}
	}
	cfg := value[*mysql.Config](t)(mysql.ParseDSN(dsn))
	pipelinetest.Await(t, "the server to end what its callers have left", func() bool {
		var n int
		must(t, holder.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM "+pipelinetest.Connections(t)+
			" WHERE DB = ? AND COMMAND = 'Query' AND ID <> CONNECTION_ID()", cfg.DBName))
		return n == 0
	})
	err := exec(s.DB(), "UPDATE duetime_tasks SET version = 1")
	if number(err) != 1205 || !s.Retryable(err) {
		t.Errorf("a change of a locked table answers %v, want a lock wait timeout that is retryable", err)
	}
	must(t, exec(lock, "UNLOCK TABLES"))
	inserted(t, s, newTasks(t, 1)...)
}

// A handler's statement can't commit half a batch.
func TestStatementThatWouldEndItsTransaction(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	other := opened(t, dsn, store.Options{})
	pets(t, other)
	tx := begin(t, s)
	must(t, exec(tx, "UPDATE pets SET meals = 1000 WHERE id = 1"))
	for _, statement := range []string{
		"COMMIT", "rollback", "ROLLBACK WORK", "BEGIN", " start transaction", "/* a */ CREATE TABLE toys (id INT)", "ALTER TABLE pets COMMENT 'x'",
		"TRUNCATE TABLE pets", "DROP TABLE pets", "CREATE OR REPLACE VIEW v AS SELECT 1", "LOCK TABLES pets WRITE", "-- x\nRENAME TABLE pets TO p",
	} {
		if err := exec(tx, statement); !errors.Is(err, store.ErrEndsTransaction) || s.Retryable(err) || s.Unavailable(err) {
			t.Errorf("%s: %v, want ErrEndsTransaction", statement, err)
		}
	}
	for _, statement := range []string{
		"SAVEPOINT a", "ROLLBACK TO SAVEPOINT a", "ROLLBACK WORK TO a", "RELEASE SAVEPOINT a", "CREATE TEMPORARY TABLE mine (id INT)",
		"DROP TEMPORARY TABLE mine",
	} {
		must(t, exec(tx, statement))
	}
	must(t, tx.Rollback())
	if n := meals(t, other); n != 0 {
		t.Errorf("%d meals of a transaction that was rolled back", n)
	}
	must(t, exec(s.DB(), "CREATE TABLE toys (id INT)")) // outside of a transaction
}

// All of this works with the rights on the tables only.
func TestSessionOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	cfg := value[*mysql.Config](t)(mysql.ParseDSN(dsn))
	user := "u" + cfg.DBName[2:14]
	must(t, exec(s.DB(), "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'secret'"))
	t.Cleanup(func() { _, _ = s.DB().Exec("DROP USER '" + user + "'@'%'") })
	must(t, exec(s.DB(), "GRANT SELECT, INSERT, UPDATE, DELETE ON "+cfg.DBName+".* TO '"+user+"'@'%'"))
	for name, o := range map[string]store.Options{"a service's": {}, "a worker's": store.ForWorker(1, 2, time.Second)} {
		own := opened(t, strings.Replace(dsn, "root@", user+":secret@", 1), o)
		if err := own.CheckSession(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		inserted(t, own, newTasks(t, 2)...)
	}
}

// A COMMIT that waits for a lock of the whole server, such as a backup's, is told apart from one with unknown outcome.
func TestCommitUnderAGlobalReadLock(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t)
	dsn := server.NewSchema(t)
	s := migrated(t, opened(t, dsn, store.Options{}))
	pets(t, s)
	holder := value[*sqlx.DB](t)(sqlx.Open("mysql", dsn))
	t.Cleanup(func() { must(t, holder.Close()) })
	lock := value[*sqlx.Conn](t)(holder.Connx(t.Context()))
	defer func() { _ = lock.Close() }()
	tx := begin(t, s)
	must(t, exec(tx, "UPDATE pets SET meals = 1 WHERE id = 1"))
	must(t, exec(lock, "FLUSH TABLES WITH READ LOCK"))
	err := tx.Commit()
	if err == nil || s.Ambiguous(err) || !s.Retryable(err) {
		t.Errorf("COMMIT: %v, want a retryable refusal", err)
	}
	must(t, exec(lock, "UNLOCK TABLES"))
	if n := meals(t, s); n != 0 {
		t.Errorf("%d meals of a COMMIT that was refused", n)
	}
}

// Every session has the settings on which the promises depend.
func TestSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options        store.Options
		lockWait, wait int
	}{
		{store.Options{}, 2, 30},
		{store.Options{LockWait: 1500 * time.Millisecond, WaitTimeout: 11 * time.Second}, 2, 11},
		{store.ForWorker(1, 1, time.Minute), 1, 75},
	} {
		_, dsn := openMySQLStore(t, c.options)
		s := opened(t, dsn+"?wait_timeout=28800&innodb_lock_wait_timeout=50", c.options)
		var isolation, zone string
		var lockWait, wait int
		must(t, s.DB().QueryRowxContext(t.Context(), "SELECT @@SESSION."+pipelinetest.IsolationVariable(t)+", @@SESSION.time_zone, "+
			"@@SESSION.innodb_lock_wait_timeout, @@SESSION.wait_timeout").Scan(&isolation, &zone, &lockWait, &wait))
		if isolation != "READ-COMMITTED" || zone != "+00:00" || lockWait != c.lockWait || wait != c.wait {
			t.Errorf("session of %+v: %s, %s, lock wait %d s, wait %d s", c.options, isolation, zone, lockWait, wait)
		}
	}
}
