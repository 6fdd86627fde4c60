package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// A promise can depend on a session variable whose default an administrator has changed: with autocommit=0 an
// acknowledged task is never committed, with completion_type=CHAIN the statement after each COMMIT isn't, with
// sql_select_limit=10 every page of a sweep looks like its last one. So each new connection sets the variables on which
// this package depends before its first use, and CheckSession reads them back. Other variables stay as the server, the
// DSN and the caller set them.

// isolation is set once per connection: as an option of BeginTx it would cost a round trip per transaction, and the
// variable has different names on MySQL and MariaDB.
const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"

const readCommitted = "READ-COMMITTED" // as the variable shows it

// variable is a session variable on which this package depends.
type variable struct {
	name, value string
	shown       string // value in SHOW VARIABLES; empty: not read back
}

const utf8mb4 = "utf8mb4"

// requiredVariables have the same value on every connection.
var requiredVariables = []variable{
	{"autocommit", "1", "ON"},            // an autocommit statement is a transaction
	{"completion_type", "0", "NO_CHAIN"}, // a COMMIT ends the transaction, begins none, and keeps the connection
	{"unique_checks", "1", "ON"},         // two tasks can't have the same key
	{"sql_big_selects", "1", "ON"},       // sweeps and counts may read a table of any size
	{"sql_safe_updates", "0", "OFF"},     // so may statements that change rows
	{"character_set_client", utf8mb4, utf8mb4},
	{"character_set_results", utf8mb4, utf8mb4},
	{"collation_connection", "IF(@@character_set_connection = '" + utf8mb4 + "', @@collation_connection, '" + utf8mb4 + "_general_ci')", ""},
}

// allRows ends a page where its rows end. Vitess refuses the value, and bounds results by a setting of its own.
const (
	allRows = "SET sql_select_limit = " + noLimit
	noLimit = "18446744073709551615"
)

// removedModes are modes of MariaDB that change the meaning of this package's SQL: an empty subject would be NULL, and
// "due_at = ?, run_at = due_at" would set run_at to the old due_at.
var removedModes = []string{"EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT"}

// productVariables are variables that only one of MySQL and MariaDB has, each in a comment that only that product
// executes. They limit a statement's time, and the length of a list of ids: for a longer list the server searches, and
// locks, rows outside of the primary key. A time limit in the DSN is kept.
var productVariables = []struct{ name, comment string }{
	{"max_execution_time", "/*!50708 max_execution_time = 0, */"},
	{"max_statement_time", "/*M!100100 max_statement_time = 0, */"},
	{"range_optimizer_max_mem_size", "/*!50709 range_optimizer_max_mem_size = 0, */"},
	{"in_predicate_conversion_threshold", "/*M!100318 in_predicate_conversion_threshold = 0, */"},
}

// sessionSettings removes the parameters from the driver's configuration, and returns the statements that set up a new
// connection. One of them sets the parameters and then what this package needs, in one round trip: the last value counts.
func sessionSettings(cfg *mysql.Config, o Options) []string {
	var set strings.Builder
	set.WriteString("SET ")
	named := map[string]bool{}
	mode := "@@sql_mode"
	for _, name := range slices.Sorted(maps.Keys(cfg.Params)) {
		value := cfg.Params[name]
		bare := bareName(name)
		switch bare {
		case "sql_select_limit": // see allRows
			continue
		case "sql_mode":
			mode = value
			continue
		}
		named[bare] = true
		set.WriteString(name + " = " + value + ", ")
	}
	for _, v := range productVariables {
		if !named[v.name] {
			set.WriteString(v.comment + " ")
		}
	}
	for _, m := range removedModes {
		mode = "REPLACE(" + mode + ", '" + m + "', '')"
	}
	set.WriteString("sql_mode = " + mode + ", lock_wait_timeout = " + o.tableWait())
	for _, v := range requiredVariables {
		set.WriteString(", " + v.name + " = " + v.value)
	}
	cfg.Params = nil
	return []string{isolation, set.String()}
}

// bareName returns a variable's name without prefixes and quotes.
func bareName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, prefix := range []string{"@@", "session.", "local.", "session ", "local "} {
		name = strings.TrimSpace(strings.TrimPrefix(name, prefix))
	}
	return strings.Trim(name, "`")
}

// tableWait is how many seconds a statement waits for a table that a backup, or a change of the table, has locked.
// MySQL's default is a year, and the connection would wait that long even after its caller has left.
func (o Options) tableWait() string {
	return seconds(cmp.Or(o.TableWait, max(o.LockWait, 2*time.Second)))
}

// SettingError says that the server, or the DSN, has a setting with which the pipeline can't keep its promises.
type SettingError struct {
	Name, Value string // as in SHOW VARIABLES
	Want        string // the value that it must have
}

// Error names the setting.
func (e *SettingError) Error() string {
	return fmt.Sprintf("mysql: %s is %s, and must be %s", e.Name, e.Value, e.Want)
}

// expectedVariables are the values that CheckSession expects: those that each connection has set, under the names of both
// products, and those that only an administrator may set.
func (s *Store) expectedVariables(p product) map[string]string {
	want := map[string]string{
		"transaction_isolation": readCommitted, "tx_isolation": readCommitted,
		"transaction_read_only": "OFF", "tx_read_only": "OFF",
		"character_set_connection": utf8mb4, "sql_log_bin": "ON", "lock_wait_timeout": s.tableWait, "sql_select_limit": noLimit,
	}
	for _, v := range requiredVariables {
		if v.shown != "" {
			want[v.name] = v.shown
		}
	}
	if p.name == vitess {
		want["autocommit"] = "1"          // as it spells it
		delete(want, "lock_wait_timeout") // it keeps its own
		delete(want, "sql_select_limit")  // see allRows
	}
	return want
}

// CheckSession returns a *SettingError if a connection of the pool lacks a setting on which the pipeline's promises
// depend, because the server, the DSN or a proxy between them has another value. It returns nil for SQLite, and for a
// handle that this package did not open.
func (s *Store) CheckSession(ctx context.Context) error {
	if s.openPatient == nil {
		return nil
	}
	p, err := s.askProduct(ctx)
	if err != nil {
		return err
	}
	if err := s.checkProduct(ctx, p); err != nil {
		return err
	}
	want := s.expectedVariables(p)
	names := slices.Sorted(maps.Keys(want))
	have, err := s.variables(ctx, append(names, "sql_mode", "log_bin", "binlog_format"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if value, there := have[name]; there && !strings.EqualFold(value, want[name]) {
			return &SettingError{name, value, want[name]}
		}
	}
	for _, mode := range removedModes {
		if strings.Contains(have["sql_mode"], mode) {
			return &SettingError{"sql_mode", have["sql_mode"], "without " + mode}
		}
	}
	// In this case the server refuses every change at READ COMMITTED, with an error that does not tell the reason.
	if have["log_bin"] == "ON" && have["binlog_format"] == "STATEMENT" {
		return &SettingError{"binlog_format", "STATEMENT", "ROW or MIXED"}
	}
	return nil
}

// CheckIsolation returns a *SettingError unless the session of q is at READ COMMITTED. The server does not tell the level of a
// single transaction.
func (s *Store) CheckIsolation(ctx context.Context, q sqlx.QueryerContext) error {
	if s.dialect == SQLite {
		return nil // it has only one level
	}
	var level string
	// Each product reads its own name of the variable, and takes the other for a comment.
	const text = "SELECT /*!80000 @@transaction_isolation*/ /*M!100000 @@tx_isolation*/"
	if err := q.QueryRowxContext(ctx, text).Scan(&level); err != nil {
		return fmt.Errorf("read the isolation level: %w", err)
	}
	if level != readCommitted {
		return &SettingError{"transaction_isolation", level, readCommitted + " for the session"}
	}
	return nil
}

// MaxConnections returns how many connections the server takes.
func (s *Store) MaxConnections(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowxContext(ctx, "SELECT @@max_connections").Scan(&n); err != nil {
		return 0, fmt.Errorf("read max_connections: %w", err)
	}
	return n, nil
}

// variables reads the session's variables of these names. Its result lacks variables that the server doesn't have.
func (s *Store) variables(ctx context.Context, names []string) (map[string]string, error) {
	var name, value string
	have := map[string]string{}
	err := forEach(ctx, s.db, "SHOW SESSION VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "','")+"')", nil,
		[]any{&name, &value}, func() { have[name] = value })
	if err != nil {
		return nil, fmt.Errorf("read the session's settings: %w", err)
	}
	return have, nil
}
