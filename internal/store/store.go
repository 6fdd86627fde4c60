package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"

	"github.com/duetime/duetime/pkg/task"
)

// Store is the pipeline's door to one database schema.
type Store struct {
	db      *sqlx.DB
	dialect Dialect
	slow    func() (*sqlx.DB, error) // opens a handle for statements that may run for minutes
	// tableWait is the lock_wait_timeout of the handle's sessions, as the server shows it.
	tableWait string
	layout    atomic.Pointer[Layout] // as last read

	purgeMu sync.Mutex
	purged  task.Cursor // where the last purge stopped
}

// Open prepares a store on MySQL or MariaDB. It does not dial: a server that is away shows at the first use. The DSN
// needs only user, address and schema; what the pipeline relies on is set by openDB, and all else in the DSN holds as it
// does on a handle that the caller opens, since the caller's own statements run here too.
func Open(dsn string, o Options) (*Store, error) {
	db, err := openDB(dsn, o)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, dialect: MySQL, tableWait: o.tableWait()}
	s.slow = func() (*sqlx.DB, error) {
		return openMySQL(dsn, Options{MaxOpen: 4, TLS: o.TLS, TableWait: migrationWait, changesTables: true}, func(cfg *mysql.Config) {
			cfg.ReadTimeout = 0
			cfg.ParseTime = true // goose reads times, and nobody else uses this handle
			cfg.Loc, cfg.Params["time_zone"] = time.UTC, "'+00:00'"
		})
	}
	return s, nil
}

// OpenSQLite prepares a store in one file, made at the first use. Its transactions take the write lock when they begin
// and wait up to 5 s for it.
func OpenSQLite(path string) (*Store, error) {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout(5000)") // first: switching to WAL may itself find the file busy
	q.Add("_pragma", "journal_mode(WAL)")
	q.Add("_pragma", "synchronous(NORMAL)")
	q.Add("_txlock", "immediate")
	c, err := sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db := sqlx.NewDb(sql.OpenDB(&connector{inner: c}), "sqlite3")
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return On(db, SQLite), nil
}

// On makes a store of a handle that the caller opened and will close. Its connections are guarded against lost
// transactions only if Open opened it; its sessions must be READ COMMITTED.
func On(db *sqlx.DB, d Dialect) *Store { return &Store{db: db, dialect: d} }

// unhurried returns a handle without read timeout, and what to do with it afterwards.
func (s *Store) unhurried() (*sqlx.DB, func(), error) {
	if s.slow == nil {
		return s.db, func() {}, nil
	}
	db, err := s.slow()
	if err != nil {
		return nil, nil, err
	}
	return db, func() { _ = db.Close() }, nil // nothing of it is still in use
}

// DB returns the handle.
func (s *Store) DB() *sqlx.DB { return s.db }

// Dialect says which SQL the database speaks.
func (s *Store) Dialect() Dialect { return s.dialect }

// Close closes the handle after waiting for the statements that run.
func (s *Store) Close() error { return s.db.Close() }

// Ping asks the server for an answer.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// Begin starts a transaction at READ COMMITTED. It ends with ctx.
func (s *Store) Begin(ctx context.Context) (*sqlx.Tx, error) {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", closed(err))
	}
	return tx, nil
}

// Now reads the database's clock, to the millisecond, from a server that may be written. A nil q takes a connection of the pool.
func (s *Store) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	var ms int64
	if err := s.truth(ctx, q, s.dialect.now(), nil, &ms); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMilli(ms).UTC(), nil
}

// Clock reads the database's clock as finely as it tells, for who learns it, from a server that may be written.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	var us int64
	if err := s.truth(ctx, nil, s.dialect.micros(), nil, &us); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

func (s *Store) on(q sqlx.QueryerContext) sqlx.QueryerContext {
	if q == nil {
		return s.db
	}
	return q
}

// Options tune the sessions of a MySQL handle; zero values mean the defaults.
type Options struct {
	LockWait    time.Duration // longest wait for a row lock, whole seconds, at least 1 s; default 2 s
	TableWait   time.Duration // longest wait for a table that somebody has locked, whole seconds; default LockWait, at least 2 s
	WaitTimeout time.Duration // after which the server ends an idle session and its transaction; default the server's
	Longest     time.Duration // that a caller's statement may take; default, and least, 10 s
	MaxOpen     int           // most connections; default 32
	Chain       bool          // begin the next transaction with each commit; see chain
	TLS         *tls.Config   // of every connection; nil: none, or what the DSN asks for

	changesTables bool // migrations, whose transactions end with each change
}

// ForWorker returns the options of a handle of workers' own, for so many queues and so many batches at once in each, whose
// handlers take as long as that at most. A batch holds locks, so it doesn't wait for others' for long; a process that froze
// gives them back a little after its handlers' time; each runner has a connection, and the clock and look-ups have some.
func ForWorker(queues, concurrency int, longest time.Duration) Options {
	return Options{
		LockWait: time.Second, WaitTimeout: longest + 15*time.Second, Longest: longest, MaxOpen: queues*(2*concurrency+(concurrency+1)/2+1) + 4,
		Chain: true,
	}
}

// readTimeout bounds the wait for an answer, so that a COMMIT to a server that froze returns.
func (o Options) readTimeout() time.Duration {
	return max(o.Longest, 10*time.Second) + 10*time.Second
}

// openDB opens a handle as the pipeline needs it: sessions at READ COMMITTED, guarded against lost transactions,
// parameters interpolated by the driver, a server that became read-only left at once. It does not dial.
func openDB(dsn string, o Options) (*sqlx.DB, error) {
	return openMySQL(dsn, o, func(*mysql.Config) {})
}

func openMySQL(dsn string, o Options, more func(*mysql.Config)) (*sqlx.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	if t := cfg.TLS; o.TLS == nil && t != nil && t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil {
		return nil, fmt.Errorf("mysql.dsn: tls=%s does not check the server's certificate", cfg.TLSConfig)
	}
	configure(cfg, o)
	more(cfg)
	hello := greeting(cfg, o)
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	return handle(c, hello, o), nil
}

// handle makes a pool of guarded connections that are greeted with these statements.
func handle(inner driver.Connector, hello []string, o Options) *sqlx.DB {
	db := sqlx.NewDb(sql.OpenDB(&connector{inner: inner, greeting: hello, chains: o.Chain, keeps: !o.changesTables}), "mysql")
	n := cmp.Or(o.MaxOpen, 32)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxLifetime(10 * time.Minute) // finds a moved primary behind an unchanged name
	if o.WaitTimeout > 0 {
		db.SetConnMaxIdleTime(o.WaitTimeout / 2) // before the server does it
	}
	return db
}

// sameZone leaves a session in the server's zone. It only calls a system clock of UTC by the name that costs the server
// no system call: with SYSTEM it asks its C library about each TIMESTAMP, one session at a time.
const sameZone = "IF(@@time_zone = 'SYSTEM' AND @@system_time_zone = 'UTC', '+00:00', @@time_zone)"

// configure sets what the pipeline needs. It leaves alone how times, zones and counts of rows reach the caller (loc,
// parseTime, time_zone, clientFoundRows): our own times are numbers of UTC_TIMESTAMP, and our own statements count rows in
// ways that clientFoundRows doesn't change. Package dsn tells the caller of every parameter that is set here.
func configure(cfg *mysql.Config, o Options) {
	cfg.InterpolateParams = true
	cfg.RejectReadOnly = false // guard does it, and for the other connections too
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 5*time.Second)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, o.readTimeout())
	cfg.Logger = &mysql.NopLogger{} // every error it prints is returned too
	if o.TLS != nil {
		cfg.TLS, cfg.AllowFallbackToPlaintext = o.TLS, false // whoever sits on the line could say that the server has no TLS
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = seconds(cmp.Or(o.LockWait, 2*time.Second))
	if o.WaitTimeout > 0 {
		cfg.Params["wait_timeout"] = seconds(o.WaitTimeout)
	}
	if cfg.Params["time_zone"] == "" {
		cfg.Params["time_zone"] = sameZone
	}
}

func seconds(d time.Duration) string {
	return fmt.Sprint(max(1, int64((d+time.Second-1)/time.Second)))
}
