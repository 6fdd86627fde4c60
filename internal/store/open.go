package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// Open prepares a store on MySQL or MariaDB. It does not dial: a server that is away shows at the first use. The DSN
// needs only user, address and schema. Its other parameters apply as on a handle that the caller opens, since the
// caller's own statements run here too; configure sets only what the pipeline needs.
func Open(dsn string, o Options) (*Store, error) {
	db, err := openMySQL(dsn, o, func(*mysql.Config) {})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, dialect: MySQL, tableWait: o.tableWait(), namespace: o.Namespace, schema: schemaOf(dsn)}
	s.openPatient = func(tableWait time.Duration) (*sqlx.DB, error) {
		return openMySQL(dsn, Options{MaxOpen: 4, TLS: o.TLS, TableWait: tableWait, changesTables: true}, func(cfg *mysql.Config) {
			cfg.ReadTimeout = 0
			cfg.ParseTime = true // goose reads times, and only goose uses this handle
			cfg.Loc, cfg.Params["time_zone"] = time.UTC, "'+00:00'"
		})
	}
	return s, nil
}

func schemaOf(dsn string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "" // openMySQL has refused it
	}
	return cfg.DBName
}

// OpenSQLite prepares a store in one file, which the first use creates. The program must import modernc.org/sqlite. Its transactions take the write lock when they
// begin and wait up to 5 s for it.
func OpenSQLite(path string) (*Store, error) {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout(5000)") // must be first: switching to WAL may find the file busy
	q.Add("_pragma", "journal_mode(WAL)")
	q.Add("_pragma", "synchronous(NORMAL)")
	q.Add("_txlock", "immediate")
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	registered, err := sql.Open("sqlite", name) // it connects to nothing
	if err != nil {
		return nil, fmt.Errorf(`open %s: import _ "modernc.org/sqlite": %w`, path, err)
	}
	defer func() { _ = registered.Close() }() // only its driver is used
	db := sqlx.NewDb(sql.OpenDB(&connector{inner: dsnConnector{name, registered.Driver()}}), "sqlite3")
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return On(db, SQLite), nil
}

// dsnConnector connects by a registered driver. The driver is the caller's import: a service on MySQL links none of SQLite.
type dsnConnector struct {
	dsn    string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c dsnConnector) Driver() driver.Driver { return c.driver }

// Options tune the sessions of a MySQL handle; zero values mean the defaults.
type Options struct {
	LockWait    time.Duration // for a row lock, in whole seconds, at least 1 s; default 2 s
	TableWait   time.Duration // for a table that another session has locked, in whole seconds; default LockWait, at least 2 s
	WaitTimeout time.Duration // after which the server ends an idle session and its transaction; default 30 s
	Longest     time.Duration // time limit of a caller's statement; default, and at least, 10 s
	MaxOpen     int           // connections; default 32
	Chain       bool          // each COMMIT begins the next transaction; see chain
	Namespace   string        // to which the schema must belong; empty: any. Rows of another namespace are refused
	TLS         *tls.Config   // of every connection; nil: none, or the DSN's
	OnFull      func()        // called when the server answers that its disk is full; nil: none

	changesTables bool // for migrations: a change of a table ends its transaction
}

// ForWorker returns the options of a worker's handle: concurrency is the number of concurrent batches in each queue, and
// longest the handlers' time limit. A batch holds locks, so it waits for other locks for one second only. The server
// frees the locks of a frozen process 15 s after the handlers' time limit. Each runner has a connection, and the clock
// and look-ups have four.
func ForWorker(queues, concurrency int, longest time.Duration) Options {
	return Options{
		LockWait: time.Second, WaitTimeout: longest + 15*time.Second, Longest: longest, MaxOpen: queues*(2*concurrency+(concurrency+1)/2+1) + 4,
		Chain: true,
	}
}

// waitTimeout is after how long the server frees the locks of a process that is frozen, or whose host is lost. The server's own
// eight hours would keep a page of tasks locked for as long. The session that holds the lock of migrations is idle while a table
// is changed.
func (o Options) waitTimeout() time.Duration {
	if o.changesTables {
		return 8 * time.Hour
	}
	return cmp.Or(o.WaitTimeout, 30*time.Second)
}

// openMySQL opens a handle as the pipeline needs it: with sessions at READ COMMITTED, guarded against lost transactions.
// Parameters are interpolated by the driver, and a server that became read-only is left at once. change runs after
// configure. openMySQL does not dial.
func openMySQL(dsn string, o Options, change func(*mysql.Config)) (*sqlx.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	if t := cfg.TLS; o.TLS == nil && t != nil && t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil {
		return nil, fmt.Errorf("mysql.dsn: tls=%s does not check the server's certificate", cfg.TLSConfig)
	}
	configure(cfg, o)
	change(cfg)
	settings := sessionSettings(cfg, o)
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	return newPool(c, settings, o), nil
}

// newPool makes a pool of guarded connections, and sets up each by the settings.
func newPool(inner driver.Connector, settings []string, o Options) *sqlx.DB {
	db := sqlx.NewDb(sql.OpenDB(&connector{inner: inner, settings: settings, chains: o.Chain, keepsTx: !o.changesTables, onFull: o.OnFull}), "mysql")
	n := cmp.Or(o.MaxOpen, 32)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxLifetime(10 * time.Minute)    // so that a primary that moved behind its name is found
	db.SetConnMaxIdleTime(o.waitTimeout() / 2) // before the server closes the connection
	return db
}

// serverZone leaves a session in the server's zone. If the system's clock is in UTC, it uses the offset instead of
// SYSTEM: with SYSTEM the server asks its C library about each TIMESTAMP, one session at a time.
const serverZone = "IF(@@time_zone = 'SYSTEM' AND @@system_time_zone = 'UTC', '+00:00', @@time_zone)"

// configure sets what the pipeline needs. It does not change how times, zones and counts of rows reach the caller (loc,
// parseTime, time_zone, clientFoundRows): our own times are numbers of UTC_TIMESTAMP, and clientFoundRows doesn't affect
// how our own statements count rows. Package dsn reports every parameter that is set here to the caller.
func configure(cfg *mysql.Config, o Options) {
	cfg.InterpolateParams = true
	cfg.RejectReadOnly = false // conn.record does it, and also retires the other connections
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 5*time.Second)
	// A COMMIT to a frozen server must return.
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, max(o.Longest, 10*time.Second)+10*time.Second)
	cfg.Logger = &mysql.NopLogger{} // the driver also returns every error that it logs
	if o.TLS != nil {
		cfg.TLS, cfg.AllowFallbackToPlaintext = o.TLS, false // an attacker on the network could say that the server has no TLS
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = seconds(cmp.Or(o.LockWait, 2*time.Second))
	cfg.Params["wait_timeout"] = seconds(o.waitTimeout())
	if cfg.Params["time_zone"] == "" {
		cfg.Params["time_zone"] = serverZone
	}
}

func seconds(d time.Duration) string {
	return fmt.Sprint(max(1, int64((d+time.Second-1)/time.Second)))
}
