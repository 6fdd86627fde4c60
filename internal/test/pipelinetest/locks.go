package pipelinetest

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"
)

const (
	mysqlWaits = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE LOCK_STATUS = 'WAITING' AND OBJECT_SCHEMA = DATABASE()"
	mysqlLocks = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE LOCK_TYPE = 'RECORD' AND OBJECT_SCHEMA = DATABASE()"

	mysqlIdle = "SELECT COUNT(*) FROM performance_schema.data_locks l JOIN performance_schema.threads p USING (THREAD_ID) " +
		"WHERE l.LOCK_TYPE = 'RECORD' AND l.OBJECT_SCHEMA = DATABASE() AND p.PROCESSLIST_COMMAND = 'Sleep' AND p.PROCESSLIST_USER = ?"

	// MySQL's information_schema.PROCESSLIST fails while any connection runs a statement with bytes that are no UTF-8.
	mysqlConnections = "(SELECT PROCESSLIST_ID AS ID, PROCESSLIST_DB AS DB, PROCESSLIST_COMMAND AS COMMAND, " +
		"PROCESSLIST_STATE AS STATE, PROCESSLIST_INFO AS INFO, PROCESSLIST_TIME AS TIME FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL) AS connections"

	mariadbConnections = "information_schema.PROCESSLIST"

	mariadbTrx = " FROM information_schema.INNODB_TRX x " +
		"JOIN " + mariadbConnections + " p ON p.ID = x.trx_mysql_thread_id WHERE p.DB = DATABASE()"
	mariadbWaits = "SELECT COUNT(*)" + mariadbTrx + " AND x.trx_state = 'LOCK WAIT'"
	mariadbLocks = "SELECT COALESCE(SUM(x.trx_rows_locked), 0)" + mariadbTrx
	mariadbIdle  = mariadbLocks + " AND p.COMMAND = 'Sleep' AND p.USER = ?"
)

// lockReaders keeps the readers of MariaDB's INNODB_TRX apart: the server renews that table only if nobody has read it
// for 100 ms.
var lockReaders sync.Mutex

type rowQueryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Connections is a table of the server's connections for a FROM, with ID, DB, COMMAND, STATE, INFO and TIME in seconds.
func Connections(t testing.TB) string {
	t.Helper()
	return chosen(t).connections
}

// LockWaits counts the transactions that wait for a lock in q's schema.
func LockWaits(t testing.TB, q rowQueryer) int {
	t.Helper()
	return countLocks(t, q, chosen(t).lockWaits)
}

// RowLocks counts the row locks that are held in q's schema.
func RowLocks(t testing.TB, q rowQueryer) int {
	t.Helper()
	return countLocks(t, q, chosen(t).rowLocks)
}

// IdleLocks counts the row locks of a user's transactions in q's schema that wait for the user's next word.
func IdleLocks(t testing.TB, q rowQueryer, user string) int {
	t.Helper()
	return countLocks(t, q, chosen(t).idleLocks, user)
}

func countLocks(t testing.TB, q rowQueryer, query string, args ...any) (n int) {
	t.Helper()
	lockReaders.Lock()
	defer lockReaders.Unlock()
	time.Sleep(150 * time.Millisecond) // see lockReaders
	Must(t, q.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}
