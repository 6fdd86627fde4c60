package store

// proof says which statements certainly took no effect when the server answers so; the classes of SQLSTATE prove it too. Any
// other answer, such as a proxy's, may come after the effect.
type proof int

const (
	nothing       proof = iota
	ofStatement         // a statement that was its own transaction
	ofEveryCommit       // that, and a COMMIT: the server says that it has rolled back
)

// answers are the error numbers of the servers on which something is decided. MariaDB's numbers differ from MySQL's only above
// 1900.
var answers = map[uint16]struct {
	class  Class
	proves proof
}{
	1020: {Retryable, ofEveryCommit}, // the record changed since the transaction's snapshot
	1205: {Retryable, ofEveryCommit}, // lock wait timeout
	1206: {Retryable, ofEveryCommit}, // lock table full
	1213: {Retryable, ofEveryCommit}, // deadlock

	1021: {Full, ofStatement}, // which number it is depends on the layer that finds out
	1026: {Full, nothing},
	1114: {Full, ofStatement},

	1040: {Unavailable, nothing}, // connections used up
	1047: {Unavailable, nothing}, // a cluster's node is not ready
	1053: {Unavailable, nothing}, // stopping
	1129: {Unavailable, nothing}, // host blocked
	1203: {Unavailable, nothing}, // the user's limit of connections
	1226: {Unavailable, nothing}, // another limit of the user
	1927: {Unavailable, nothing}, // connection killed
	3032: {Unavailable, nothing}, // offline mode
	3169: {Unavailable, nothing}, // session killed
	4031: {Unavailable, nothing}, // session idle for too long

	1290: {Unavailable, ofEveryCommit}, // an option forbids it: ReadOnly if that is read_only, see readOnlyText
	1792: {Unavailable, ofEveryCommit}, // the transaction is read-only
	1836: {ReadOnly, ofEveryCommit},

	1049: {NoDatabase, nothing},
	1146: {NoTable, nothing},
	1062: {Duplicate, nothing},

	1044:     {Refused, nothing}, // rights, passwords, plugins
	1045:     {Refused, nothing},
	1130:     {Refused, nothing},
	1142:     {Refused, nothing},
	1143:     {Refused, nothing},
	1227:     {Refused, nothing},
	1251:     {Refused, nothing},
	1524:     {Refused, nothing},
	1698:     {Refused, nothing},
	1820:     {Refused, nothing}, // expired or locked accounts
	1862:     {Refused, nothing},
	3118:     {Refused, nothing},
	needsTLS: {Refused, nothing},
	4151:     {Refused, nothing},

	1115: {BadSetting, nothing}, // charset
	1193: {BadSetting, nothing}, // unknown variable
	1229: {BadSetting, nothing},
	1231: {BadSetting, nothing}, // value of a variable
	1232: {BadSetting, nothing},
	1238: {BadSetting, nothing},
	1273: {BadSetting, nothing}, // collation
	1298: {BadSetting, nothing}, // time zone, also where the server's tables of zones were never loaded

	1153: {Other, ofStatement},   // packet too large
	1175: {Other, ofStatement},   // sql_safe_updates
	1364: {Other, ofStatement},   // no default
	1366: {Other, ofStatement},   // value of the wrong kind
	1526: {Other, ofStatement},   // no partition
	1665: {Other, ofStatement},   // binlog_format
	1969: {Other, ofStatement},   // time limit of the server
	3024: {Other, ofStatement},   // the same
	3100: {Other, ofEveryCommit}, // a plugin refused before the commit
	3101: {Other, ofEveryCommit}, // a plugin rolled back
	3819: {Other, ofStatement},   // CHECK
}

// needsTLS is what MySQL answers under require_secure_transport; MariaDB says that access is denied.
const needsTLS = 3159

// statesOfStatement are the classes of SQLSTATE with which a statement was not understood, or its values or the caller's rights
// did not do.
var statesOfStatement = []string{"21", "22", "23", "42"}

// rolledBack is the class of SQLSTATE of all answers with which the server says that it has rolled back.
const rolledBack = "40"

// readOnlyText is in the text of 1290 where the option is read_only or super_read_only.
const readOnlyText = "read-only"

// SQLite's primary result codes, and one extended code.
const (
	sqliteError     = 1
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteNoMem     = 7
	sqliteReadOnly  = 8
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteFull      = 13
	sqliteCantOpen  = 14
	sqliteUnique    = 2067
)
