package store

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

// skipLocked is ForUpdate for rows that nobody else holds.
func (d Dialect) skipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// force pins a statement to one index. Without it the optimizer reads a small table through any index it likes, and a
// locking read locks every row that it looks at.
func (d Dialect) force(index string) string {
	if d == SQLite {
		return ""
	}
	return " FORCE INDEX (" + index + ")"
}

// inTurn is a join that goes through its left side in the order in which that stands, whatever the optimizer thinks.
func (d Dialect) inTurn() string {
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

// micros is the statement's moment in Unix microseconds; SQLite knows only milliseconds.
func (d Dialect) micros() string {
	if d == SQLite {
		return d.now() + " * 1000"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
}

// onTaken ends an INSERT that leaves a row alone whose key is taken. For MySQL it also tells through LAST_INSERT_ID
// that there was one, because the number of affected rows means something else on a connection opened with
// clientFoundRows, which is the caller's choice.
func (d Dialect) onTaken(key string) string {
	if d == SQLite {
		return " ON CONFLICT DO NOTHING"
	}
	return " ON DUPLICATE KEY UPDATE " + key + " = IF(LAST_INSERT_ID(1) = 1, " + key + ", " + key + ")"
}
