package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/duetime/duetime/internal/protocol"
)

// migrationsTable is goose's table: a row for each migration that was applied.
const migrationsTable = "duetime_migrations"

// Migration is one numbered change of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied time.Time // zero while pending
}

// Migrate brings the schema up to date by the files of package migrations, and writes the layout if there is none; it
// keeps an existing shard count. Several processes may call it at once, and repeatedly. It returns ErrNamespace if the
// schema belongs to another namespace, and refuses a server whose locks are not MySQL's.
func (s *Store) Migrate(ctx context.Context, files fs.FS, namespace string, shards int) error {
	return s.MigrateShowing(ctx, files, namespace, shards, func(int, int) {})
}

// MigrateShowing is Migrate with progress: it calls show before each migration, and at the end, with the number of
// migrations that were missing and how many of them have run.
func (s *Store) MigrateShowing(ctx context.Context, files fs.FS, namespace string, shards int, show func(done, missing int)) error {
	if shards < 1 || shards > protocol.MaxShards {
		return fmt.Errorf("migrate: shards must be 1 to %d", protocol.MaxShards)
	}
	if err := s.CheckSession(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db, done, err := s.patient()
	if err != nil {
		return err
	}
	defer done()
	lastDB, lastDone, err := s.patientFor(buildWait)
	if err != nil {
		return err
	}
	defer lastDone()
	unlock, err := s.lockMigrations(ctx, db)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.applyAll(ctx, db, lastDB, files, show); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := s.claimLayout(ctx, namespace, shards); err != nil {
		return err
	}
	if err := s.CheckLocks(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// applyAll runs the missing migrations. SQLite has no lock that spans transactions, so another process may have made a
// change just before, and this try fails. The next try finds that change done: there are no more such tries than changes.
func (s *Store) applyAll(ctx context.Context, db, lastDB *sqlx.DB, files fs.FS, show func(done, missing int)) error {
	for tries := 1; ; tries++ {
		p, err := s.provider(ctx, db, files)
		if err != nil {
			return err
		}
		last, err := s.provider(ctx, lastDB, files)
		if err != nil {
			return err
		}
		if err = up(ctx, p, last, show); err == nil && s.dialect == SQLite {
			err = addColumns(ctx, db)
		}
		if err == nil || s.dialect == MySQL || ctx.Err() != nil || tries > len(p.ListSources())+len(columns) {
			return err
		}
	}
}

// addColumns adds the declared nullable columns that SQLite's tables of tasks lack: they need no migration there. On
// MySQL each is a migration, whose comment tells the cost of changing the table.
func addColumns(ctx context.Context, db *sqlx.DB) error {
	for _, t := range []tasksTable{liveTasks, endedTasks} {
		var have []string
		if err := db.SelectContext(ctx, &have, "SELECT name FROM pragma_table_info('"+t.name+"')"); err != nil {
			return fmt.Errorf("read the columns of %s: %w", t.name, err)
		}
		for _, c := range columns {
			if c.sqlite == "" || len(have) == 0 || slices.Contains(have, c.name) { // some migrations alone make no table of ended tasks
				continue
			}
			if _, err := db.ExecContext(ctx, "ALTER TABLE "+t.name+" ADD COLUMN "+c.name+" "+c.sqlite); err != nil {
				return fmt.Errorf("add column %s to %s: %w", c.name, t.name, err)
			}
		}
	}
	return nil
}

// up runs the missing migrations one by one. last waits for tables as upByOne wants it after a lost build.
func up(ctx context.Context, p, last *goose.Provider, show func(done, missing int)) error {
	// GetDBVersion is used, not Status: Status reads times, which a caller's own handle may return as text.
	version, err := p.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	missing := 0
	for _, source := range p.ListSources() {
		if source.Version > version {
			missing++
		}
	}
	for done := 0; ; done++ {
		show(done, missing)
		if err := upByOne(ctx, p, last); errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// A change of a table waits for the transactions that have used the table, and every later statement waits behind the
// change. So the change gives up before those statements would. It then waits longer than it has blocked them, and tries
// again.
//
// A build of an index waits for the table once more at its end, and giving up there throws the build away. A try that took
// longer than its wait has lost such a build, so the next one waits for longer than most transactions last.
const (
	migrationWait  = time.Second      // of one try; other statements wait longer for a table
	lostBuild      = 5 * time.Second  // a try that fails after this has lost a build
	buildWait      = 15 * time.Second // of a try after a lost build
	migrationPause = 2 * time.Second  // between two tries
	migrationTries = 10 * time.Minute // until migrate fails
)

// upByOne runs the next migration. It retries a migration that found a table in use: a retry skips the changes already
// made.
func upByOne(ctx context.Context, p, last *goose.Provider) error {
	busy := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		began := time.Now()
		_, err := p.UpByOne(ctx)
		if busy = serverNumber(err) == lockWaitTimeout; err != nil && !busy {
			err = backoff.Permanent(err)
		}
		if busy && time.Since(began) > lostBuild {
			p = last
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(migrationPause)), backoff.WithMaxElapsedTime(migrationTries))
	if busy {
		return fmt.Errorf("a table is in use by a transaction or a lock that does not end: %w", err)
	}
	return err
}

// MigrationStatus lists all migrations in order, applied or not. It creates goose's table if that is missing.
func (s *Store) MigrationStatus(ctx context.Context, files fs.FS) ([]Migration, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := s.provider(ctx, db, files)
	if err != nil {
		return nil, err
	}
	status, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read migration status: %w", err)
	}
	list := make([]Migration, len(status))
	for i, st := range status {
		list[i] = Migration{Version: st.Source.Version, Name: st.Source.Path, Applied: st.AppliedAt}
	}
	return list, nil
}

// CheckMigrations returns ErrOldSchema if the newest of files was not applied, and ErrNoSchema if none ever was. A schema
// that is newer than files is accepted: migrations don't break the previous version's code.
func (s *Store) CheckMigrations(ctx context.Context, files fs.FS) error {
	want, err := NewestMigration(files, s.dialect)
	if err != nil {
		return err
	}
	var got int64
	err = s.db.QueryRowxContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+migrationsTable).Scan(&got)
	switch {
	case Classify(err) == NoTable:
		return ErrNoSchema
	case err != nil:
		return fmt.Errorf("read applied migrations: %w", err)
	case got < want:
		return fmt.Errorf("%w: migration %d is missing, the last one applied is %d", ErrOldSchema, want, got)
	}
	return nil
}

// NewestMigration returns the highest version among the dialect's files: the schema that a program knows.
func NewestMigration(files fs.FS, d Dialect) (int64, error) {
	files, err := ofDialect(files, d)
	if err != nil {
		return 0, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, errors.Join(errors.New("no migrations"), err)
	}
	version, err := goose.NumericComponent(slices.Max(names)) // all numbers have the same number of digits
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	return version, nil
}

// PrintMigrations writes the SQL of all migrations in order, for reading or for running by hand.
func (s *Store) PrintMigrations(w io.Writer, files fs.FS) error {
	files, err := ofDialect(files, s.dialect)
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		text, _, _ := strings.Cut(string(b), "-- +goose Down")
		text = strings.TrimPrefix(text, "-- +goose Up\n")
		_, err = fmt.Fprintf(w, "-- %s\n%s\n", path, strings.TrimSpace(text))
		return err
	})
}

// ofDialect returns the dialect's folder.
func ofDialect(files fs.FS, d Dialect) (fs.FS, error) {
	files, err := fs.Sub(files, d.String())
	if err != nil {
		return nil, fmt.Errorf("open migrations of %v: %w", d, err)
	}
	return files, nil
}

func (s *Store) provider(ctx context.Context, db *sqlx.DB, files fs.FS) (*goose.Provider, error) {
	files, err := ofDialect(files, s.dialect)
	if err != nil {
		return nil, err
	}
	dialect, table := goose.DialectMySQL, migrationsTable
	if s.dialect == SQLite {
		dialect = goose.DialectSQLite3
	}
	p, err := s.askProduct(ctx)
	if err != nil {
		return nil, err
	}
	if p.name == vitess { // it finds no table by a condition that names DATABASE() in an OR, as goose's has without a schema
		table = s.keyspace() + "." + table
	}
	provider, err := goose.NewProvider(dialect, db.DB, files,
		goose.WithTableName(table), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", err)
	}
	return provider, nil
}

// lockMigrations waits until no other process migrates this schema. MySQL commits each change of a table at once, so two
// processes would meet each other's half-done changes.
func (s *Store) lockMigrations(ctx context.Context, db *sqlx.DB) (unlock func(), err error) {
	if s.dialect == SQLite {
		return func() {}, nil
	}
	c, err := db.Connx(ctx) // the lock belongs to this session
	if err != nil {
		return nil, fmt.Errorf("wait for other migrations: %w", err)
	}
	// All schemas of a server share the names of locks, which may have 64 characters.
	const name = "CONCAT('duetime ', LEFT(SHA2(DATABASE(), 256), 32))"
	for got := (sql.NullInt64{}); got.Int64 != 1; {
		if err := c.QueryRowxContext(ctx, "SELECT GET_LOCK("+name+", 5)").Scan(&got); err != nil {
			_ = c.Close() // the first error says more
			return nil, fmt.Errorf("wait for other migrations: %w", err)
		}
	}
	return func() {
		// An error means that the session has ended, and its lock with it.
		_ = c.QueryRowxContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK("+name+")").Scan(new(sql.NullInt64))
		_ = c.Close()
	}, nil
}
