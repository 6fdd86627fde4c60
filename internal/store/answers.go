package store

import "slices"

// proof tells for which statements an answer proves that they took no effect; the classes of SQLSTATE prove it too. Any
// other answer, such as a proxy's, may come after the effect.
type proof int

const (
	nothing       proof = iota
	ofStatement         // for an autocommit statement
	ofEveryCommit       // for an autocommit statement and for a COMMIT: the server says that it has rolled back
)

// answers are the error numbers of the servers that this package handles; each number is in one line. MariaDB's numbers
// differ from MySQL's only above 1900.
var answers = []struct {
	class   Class
	proves  proof
	numbers []uint16
}{
	{Retryable, ofEveryCommit, []uint16{1020, lockWaitTimeout, 1206, 1213}}, // record changed, lock wait timeout, lock table full, deadlock
	{Full, ofStatement, []uint16{1021, 1114}},                               // the number depends on the layer that finds the disk full
	{Full, nothing, []uint16{1026}},
	{Unavailable, nothing, []uint16{1040, 1203, 1226}},                           // all connections in use, or another limit of the user
	{Unavailable, nothing, []uint16{1047, 1053, 1129, 3032}},                     // node not ready, stopping, host blocked, offline mode
	{Unavailable, nothing, []uint16{1927, 3169, 4031}},                           // connection or session killed, idle for too long
	{Unavailable, ofEveryCommit, []uint16{1792, optionForbids}},                  // the transaction is read-only; see readOnlyText
	{ReadOnly, ofEveryCommit, []uint16{1836}},                                    // read-only
	{NoDatabase, nothing, []uint16{1049}},                                        // unknown database
	{NoTable, nothing, []uint16{1146}},                                           // no such table
	{Duplicate, nothing, []uint16{1062}},                                         // duplicate entry
	{Refused, nothing, []uint16{1044, noTableRight, 1143, 1227}},                 // rights
	{Refused, nothing, []uint16{1045, 1130, 1251, 1524, 1698}},                   // passwords, hosts, plugins
	{Refused, nothing, []uint16{1820, 1862, 3118, 4151, needsTLS}},               // expired or locked accounts
	{BadSetting, nothing, []uint16{1115, 1273}},                                  // charset, collation
	{BadSetting, nothing, []uint16{1193, 1229, 1231, 1232, 1238}},                // system variables and their values
	{BadSetting, nothing, []uint16{1298}},                                        // time zone; also if the server's zone tables were never loaded
	{Other, ofStatement, []uint16{1153, 1364, 1366, 1526, 3819}},                 // packet too large, no default, wrong value, no partition, CHECK
	{Other, ofStatement, []uint16{1175, 1665, timeLimitMariaDB, timeLimitMySQL}}, // sql_safe_updates, binlog_format, time limits of the server
	{Other, ofEveryCommit, []uint16{3100, 3101}},                                 // a plugin refused before the COMMIT, or rolled back
}

// meaning returns the class of a server's error number, and what the answer proves.
func meaning(number uint16) (Class, proof) {
	for _, a := range answers {
		if slices.Contains(a.numbers, number) {
			return a.class, a.proves
		}
	}
	return Other, nothing
}

// The answers that are asked for by their numbers, beside their classes.
const (
	unknownColumn    = 1054 // the table lacks a column
	noTableRight     = 1142 // the user may not do this with the table
	lockWaitTimeout  = 1205 // the statement waited too long for a lock of a row or a table
	optionForbids    = 1290 // one of the server's options forbids the statement
	outOfRange       = 1690 // a sum is too large
	timeLimitMariaDB = 1969 // the statement took longer than its limit
	timeLimitMySQL   = 3024
	needsTLS         = 3159 // require_secure_transport; MariaDB answers that access is denied
)

// statesOfStatement are the classes of SQLSTATE for a statement that the server refused: because of its text, its values,
// or the caller's rights.
var statesOfStatement = []string{"21", "22", "23", "42"}

// rolledBack is the class of SQLSTATE of all answers that say that the server has rolled back.
const rolledBack = "40"

// readOnlyText is in the message of optionForbids if the option is read_only or super_read_only.
const readOnlyText = "read-only"

// SQLite's primary result codes, and two extended codes.
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
	sqlitePrimary   = 1555 // a primary key that is taken
)
