package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Store is the pipeline's access to one database schema.
type Store struct {
	db      *sqlx.DB
	dialect Dialect
	// openPatient opens a handle for statements that may run for minutes, and waits as long for a table; nil: the pool's
	// connections have no read timeout.
	openPatient func(tableWait time.Duration) (*sqlx.DB, error)
	// tableWait is the lock_wait_timeout of the handle's sessions, as the server shows it.
	tableWait string
	namespace string // to which the schema must belong; empty: any
	schema    string // of the DSN; empty where the caller opened the handle

	layout     atomic.Pointer[layoutCopy] // as last read
	tried      lastTime                   // when a read in the background last began
	failed     lastTime                   // when a read last failed
	blocked    lastTime                   // when a block last stood in the way of a shared INSERT
	free       lastTime                   // when the shared INSERT last began that found nobody blocked
	refreshing atomic.Bool                // such a read is under way in the background
	refreshes  sync.WaitGroup

	floor floor

	maxCounted int // rows of a state that Live counts; 0: MaxCounted

	ownedMu    sync.Mutex
	owned      map[task.ID]ownedIDs // by operation
	ownedAhead int                  // ids that are read at once; 0: ownedAhead

	archive   round
	purgesMu  sync.Mutex
	purges    map[string]*[3]round // by what is purgeable
	purgeScan int                  // entries of an index that a call examines; 0: purgeScan
}

// On makes a store on a handle that the caller opened and will close. Its connections are guarded against lost
// transactions only if Open opened it; its sessions must be READ COMMITTED.
func On(db *sqlx.DB, d Dialect) *Store { return &Store{db: db, dialect: d} }

// patient returns a handle without a read timeout, and a function that closes it.
func (s *Store) patient() (db *sqlx.DB, done func(), err error) { return s.patientFor(migrationWait) }

// patientFor is patient with another wait for a table.
func (s *Store) patientFor(tableWait time.Duration) (db *sqlx.DB, done func(), err error) {
	if s.openPatient == nil {
		return s.db, func() {}, nil
	}
	if db, err = s.openPatient(tableWait); err != nil {
		return nil, nil, err
	}
	return db, func() { _ = db.Close() }, nil // the caller has read all its rows
}

// DB returns the handle.
func (s *Store) DB() *sqlx.DB { return s.db }

// Dialect says which SQL the database speaks.
func (s *Store) Dialect() Dialect { return s.dialect }

// Close waits for the running statements and closes the handle.
func (s *Store) Close() error {
	err := s.db.Close()
	s.refreshes.Wait()
	return err
}

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

// Now reads the database's clock, to the millisecond, from a server that may be written. A nil q means a connection of
// the pool. It returns ErrSchema for a caller's transaction in another schema: tasks written there would never run.
func (s *Store) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	return s.nowAnd(ctx, q, "", nil)
}

// nowAnd is Now, and reads further expressions in the same statement.
func (s *Store) nowAnd(ctx context.Context, q sqlx.QueryerContext, further string, args []any, dest ...any) (time.Time, error) {
	var ms int64
	var schema sql.NullString
	err := s.queryPrimary(ctx, q, s.dialect.now()+", "+s.dialect.schema()+further, args, append([]any{&ms, &schema}, dest...)...)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	if s.schema != "" && !strings.EqualFold(schema.String, s.schema) {
		return time.Time{}, fmt.Errorf("%w: it is in %q, duetime's tables are in %q", ErrSchema, schema.String, s.schema)
	}
	return time.UnixMilli(ms).UTC(), nil
}

// Clock reads the database's clock to the microsecond, or SQLite's to the millisecond, from a server that may be written.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	var us int64
	if err := s.queryPrimary(ctx, nil, s.dialect.micros(), nil, &us); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

// handle returns q, or the pool if q is nil.
func (s *Store) handle(q sqlx.QueryerContext) sqlx.QueryerContext {
	if q == nil {
		return s.db
	}
	return q
}
