package store

import (
	"fmt"
	"strings"
)

// Dialect says which SQL the database speaks.
type Dialect int

// The dialects. MySQL stands for MariaDB too: only SQL that both understand is used.
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

// skipLocked is ForUpdate for the rows that no other transaction holds.
func (d Dialect) skipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// force pins a statement to one index. Without it the optimizer reads a small table through any index, and a locking read locks
// every row that it reads.
func (d Dialect) force(index string) string {
	if d == SQLite {
		return ""
	}
	return " FORCE INDEX (" + index + ")"
}

// leftFirst is a join that goes through its left side in the order of that side, whatever the optimizer prefers.
func (d Dialect) leftFirst() string {
	if d == SQLite {
		return " CROSS JOIN "
	}
	return " STRAIGHT_JOIN "
}

// now is the statement's moment in Unix milliseconds, a whole number. MySQL's UTC_TIMESTAMP does not depend on the
// session's time zone, whereas UNIX_TIMESTAMP(NOW(3)) would jump by an hour when a zone leaves summer time.
func (d Dialect) now() string {
	if d == SQLite {
		return "CAST(ROUND(unixepoch('subsec')*1000) AS INTEGER)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
}

// schema is the name of the session's schema.
func (d Dialect) schema() string {
	if d == SQLite {
		return "NULL"
	}
	return "DATABASE()"
}

// micros is the statement's moment in Unix microseconds; SQLite has only milliseconds.
func (d Dialect) micros() string {
	if d == SQLite {
		return d.now() + " * 1000"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
}

// ignoreTaken ends an INSERT that does not change a row whose key is taken. For MySQL, LAST_INSERT_ID then says that there was such
// a row: the number of affected rows has another meaning on a connection that the caller opened with clientFoundRows.
func (d Dialect) ignoreTaken(key string) string {
	if d == SQLite {
		return " ON CONFLICT DO NOTHING"
	}
	return " ON DUPLICATE KEY UPDATE " + key + " = IF(LAST_INSERT_ID(1) = 1, " + key + ", " + key + ")"
}

// overwrite ends an INSERT that gives these columns their new values where a row has the key.
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
