package store

import (
	"fmt"
	"strings"
)

// Dialect is the SQL that the database speaks.
type Dialect int

// The dialects. MySQL includes MariaDB: this package uses only SQL that both understand.
const (
	MySQL Dialect = iota
	SQLite
)

// String returns the name of the dialect, which is also the name of its folder of migrations.
func (d Dialect) String() string {
	if d == SQLite {
		return "sqlite"
	}
	return "mysql"
}

// ForUpdate is the clause that locks the rows of a SELECT until the transaction ends; empty for SQLite, whose
// transactions take the only write lock when they begin.
func (d Dialect) ForUpdate() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// forUpdateNow is ForUpdate for a lock that is had at once or not at all: see lockIsTaken.
func (d Dialect) forUpdateNow() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE NOWAIT"
}

// lockIsTaken reports whether a statement by forUpdateNow met a lock of somebody else.
func lockIsTaken(err error) bool {
	const lockNowait = 3572 // MySQL's; MariaDB answers as after a wait
	n := serverNumber(err)
	return n == lockNowait || n == lockWaitTimeout
}

// forShare is ForUpdate for a lock that others may have as well.
func (d Dialect) forShare() string {
	if d == SQLite {
		return ""
	}
	return " LOCK IN SHARE MODE"
}

// skipLocked is ForUpdate for rows that no other transaction has locked.
func (d Dialect) skipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// Force pins a statement to one index. Otherwise the optimizer may read a small table through any index, and a locking
// read locks every row that it reads.
func (d Dialect) Force(index string) string {
	if d == SQLite {
		return ""
	}
	return " FORCE INDEX (" + index + ")"
}

// deletePinned begins a DELETE that reads rows by the primary key alone. A scan of a small table would wait for rows that
// others hold, or have just inserted; a DELETE of one table can't be pinned to an index. Without the brackets Vitess makes
// it one.
func (d Dialect) deletePinned(table string) string { return d.deletePinnedTo(table, "PRIMARY") }

// deletePinnedTo is deletePinned by another index.
func (d Dialect) deletePinnedTo(table, index string) string {
	if d == SQLite {
		return "DELETE FROM " + table
	}
	return "DELETE " + table + " FROM (" + table + d.Force(index) + ")"
}

// limitChange ends an UPDATE that changes at most n rows; SQLite changes all.
func (d Dialect) limitChange(n int) string {
	if d == SQLite {
		return ""
	}
	return fmt.Sprintf(" LIMIT %d", n)
}

// insertIgnore begins an INSERT that leaves a row with the same key unchanged. Unlike ignoreTaken it needs no right to
// UPDATE, but it cuts values that are too long: the caller has checked them.
func (d Dialect) insertIgnore() string {
	if d == SQLite {
		return "INSERT OR IGNORE"
	}
	return "INSERT IGNORE"
}

// LeftFirst is a join that reads its left side first and in order, whatever the optimizer prefers.
func (d Dialect) LeftFirst() string {
	if d == SQLite {
		return " CROSS JOIN "
	}
	return " STRAIGHT_JOIN "
}

// place is the expression for the place of a row's owner among so many shards; empty where SQL can't compute it.
func (d Dialect) place() string {
	if d == SQLite {
		return ""
	}
	return "CRC32(owner) MOD ?"
}

// now is the statement's moment in Unix milliseconds, a whole number. UTC_TIMESTAMP does not depend on the session's time
// zone. UNIX_TIMESTAMP(NOW(3)) would jump by an hour when a zone leaves summer time.
func (d Dialect) now() string {
	if d == SQLite {
		return "CAST(ROUND(unixepoch('subsec')*1000) AS INTEGER)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
}

// schema returns the expression for the session's schema.
func (d Dialect) schema() string {
	if d == SQLite {
		return "NULL"
	}
	return "DATABASE()"
}

// pauseOf is the name of the request that pauses the queue in this column.
func (d Dialect) pauseOf(queue string) string {
	if d == SQLite {
		return "'" + pauseRequest + "' || " + queue
	}
	return "CONCAT('" + pauseRequest + "', " + queue + ")"
}

// micros is the statement's moment in Unix microseconds; SQLite has only milliseconds.
func (d Dialect) micros() string {
	if d == SQLite {
		return d.now() + " * 1000"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
}

// ignoreTaken ends an INSERT that leaves a row with the same key unchanged. On MySQL, LAST_INSERT_ID then says that there
// was such a row: on a connection with clientFoundRows the number of affected rows doesn't say it.
func (d Dialect) ignoreTaken(key string) string {
	if d == SQLite {
		return " ON CONFLICT DO NOTHING"
	}
	return " ON DUPLICATE KEY UPDATE " + key + " = IF(LAST_INSERT_ID(1) = 1, " + key + ", " + key + ")"
}

// overwrite ends an INSERT that sets these columns in a row with the same key.
func (d Dialect) overwrite(key string, columns ...string) string {
	set, value := " ON DUPLICATE KEY UPDATE ", "VALUES(%[1]s)"
	if d == SQLite {
		set, value = " ON CONFLICT ("+key+") DO UPDATE SET ", "excluded.%[1]s"
	}
	for i, column := range columns {
		columns[i] = fmt.Sprintf("%[1]s = "+value, column)
	}
	return set + strings.Join(columns, ", ")
}
