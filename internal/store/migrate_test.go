package store_test

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

func migrationStatus(t *testing.T, s *store.Store) {
	list := value[[]store.Migration](t)(s.MigrationStatus(t.Context(), migrations.Files))
	if len(list) == 0 || list[0].Version != 1 || list[0].Applied.IsZero() || list[0].Name != "00001_tasks.sql" {
		t.Errorf("status: %+v, want 00001_tasks.sql applied", list)
	}
	var b strings.Builder
	must(t, s.PrintMigrations(&b, migrations.Files))
	for _, part := range []string{"CREATE TABLE IF NOT EXISTS duetime_tasks", "duetime_epochs", "duetime_layout"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("printed migrations lack %s", part)
		}
	}
}

func layoutStays(t *testing.T, s *store.Store) {
	must(t, s.Migrate(t.Context(), migrations.Files, "test", 4))
	got := value[protocol.Layout](t)(s.Layout(t.Context()))
	want := protocol.Layout{Namespace: "test", Deployment: got.Deployment, Shards: shards, ShardsEver: shards}
	must(t, s.Migrate(t.Context(), migrations.Files, "test", shards))
	if again := value[protocol.Layout](t)(s.Layout(t.Context())); len(got.Deployment) != 36 || again.Deployment != got.Deployment {
		t.Errorf("the deployment's id is %q, and %q after another migrate", got.Deployment, again.Deployment)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("layout (-want +got):\n%s", d)
	}
	if got.Polled() != shards {
		t.Errorf("%d shards to poll, want %d", got.Polled(), shards)
	}
}

func otherNamespace(t *testing.T, s *store.Store) {
	if err := s.Migrate(t.Context(), migrations.Files, "other", shards); !errors.Is(err, store.ErrNamespace) {
		t.Errorf("migrate for another namespace: %v, want ErrNamespace", err)
	}
	if err := s.Migrate(t.Context(), migrations.Files, "test", 0); err == nil {
		t.Error("migrate with no shards: no error")
	}
}

func TestBeforeMigration(t *testing.T) {
	t.Parallel()
	lite := value[*store.Store](t)(store.OpenSQLite(filepath.Join(t.TempDir(), "new.db")))
	t.Cleanup(func() { must(t, lite.Close()) })
	maria := opened(t, pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	for _, s := range []*store.Store{lite, maria} {
		if _, err := s.Layout(t.Context()); !errors.Is(err, store.ErrNoSchema) {
			t.Errorf("%v: layout of an empty schema: %v, want ErrNoSchema", s.Dialect(), err)
		}
		if err := s.CheckMigrations(t.Context(), migrations.Files); !errors.Is(err, store.ErrNoSchema) {
			t.Errorf("%v: migrations of an empty schema: %v, want ErrNoSchema", s.Dialect(), err)
		}
		if _, err := s.Insert(t.Context(), s.DB(), newTasks(t, 1)); !errors.Is(err, store.ErrNoSchema) {
			t.Errorf("%v: insert into an empty schema: %v, want ErrNoSchema", s.Dialect(), err)
		}
	}
}

// A schema may be newer than the program, but not older.
func TestCheckMigrations(t *testing.T) {
	t.Parallel()
	lite := value[*store.Store](t)(store.OpenSQLite(filepath.Join(t.TempDir(), "new.db")))
	t.Cleanup(func() { must(t, lite.Close()) })
	maria := opened(t, pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	for _, s := range []*store.Store{lite, maria} {
		folder := s.Dialect().String() + "/"
		first := value[[]byte](t)(migrations.Files.ReadFile(folder + "00001_tasks.sql"))
		before := fstest.MapFS{folder + "00001_tasks.sql": {Data: first}}
		must(t, s.Apply(t.Context(), before))
		must(t, s.CheckMigrations(t.Context(), before))
		if err := s.CheckMigrations(t.Context(), migrations.Files); !errors.Is(err, store.ErrOldSchema) {
			t.Errorf("%v: migrations of an older schema: %v, want ErrOldSchema", s.Dialect(), err)
		}
		must(t, s.Migrate(t.Context(), migrations.Files, "test", shards))
		must(t, s.CheckMigrations(t.Context(), migrations.Files))
		must(t, s.CheckMigrations(t.Context(), before))
	}
}

// A subject written by an older program stays, and the longest subjects fit. Services in other languages count
// characters.
func TestSubjectIsWidened(t *testing.T) {
	t.Parallel()
	lite := value[*store.Store](t)(store.OpenSQLite(filepath.Join(t.TempDir(), "new.db")))
	t.Cleanup(func() { must(t, lite.Close()) })
	maria := opened(t, pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	for _, s := range []*store.Store{lite, maria} {
		folder := s.Dialect().String() + "/"
		before := fstest.MapFS{}
		for _, name := range []string{"00001_tasks.sql", "00002_operate.sql"} {
			before[folder+name] = &fstest.MapFile{Data: value[[]byte](t)(migrations.Files.ReadFile(folder + name))}
		}
		must(t, s.Apply(t.Context(), before))
		old := newTask(t, "ann", 0)
		must(t, exec(s.DB(), "INSERT INTO duetime_tasks (id, kind, owner, subject, due_at, run_at, payload, created_at, updated_at) "+
			"VALUES (?, 'meal.done', 'ann', ?, 1, 1, '7', 1, 1)", old.ID[:], strings.Repeat("s", 32))) // as an older program wrote it
		must(t, s.Migrate(t.Context(), migrations.Files, "test", shards))
		uuid := inserted(t, s, newTask(t, "ann", 0, task.Subject(old.ID.String())))[0]
		longest := inserted(t, s, newTask(t, "ann", 0, task.Subject(strings.Repeat("s", task.MaxSubject))))[0]
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET subject = ? WHERE id = ?", strings.Repeat("🐈", 63), longest.ID[:]))
		rows := value[[]task.Task](t)(s.Get(t.Context(), nil, ids([]task.Task{old, uuid, longest})))
		for i, want := range []string{strings.Repeat("s", 32), old.ID.String(), strings.Repeat("🐈", 63)} {
			if rows[i].Subject != want {
				t.Errorf("%v: subject is %q, want %q", s.Dialect(), rows[i].Subject, want)
			}
		}
	}
}

// Several processes migrate one schema at once.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	dsn, path := pipelinetest.MySQL(t).NewSchema(t), filepath.Join(t.TempDir(), "new.db")
	for name, open := range map[string]func() (*store.Store, error){
		"mysql":  func() (*store.Store, error) { return store.Open(dsn, store.Options{}) },
		"sqlite": func() (*store.Store, error) { return store.OpenSQLite(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wg sync.WaitGroup
			for range 8 {
				s := value[*store.Store](t)(open())
				t.Cleanup(func() { must(t, s.Close()) })
				wg.Go(func() {
					if err := s.Migrate(t.Context(), migrations.Files, "test", shards); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			s := migrated(t, value[*store.Store](t)(open()))
			t.Cleanup(func() { must(t, s.Close()) })
			inserted(t, s, newTasks(t, 1)...)
		})
	}
}

// A migration waits for a reader of the table, and no statement waits long behind the migration.
func TestMigrationBesideReadersAndWriters(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	s := opened(t, dsn, store.Options{})
	first := value[[]byte](t)(migrations.Files.ReadFile("mysql/00001_tasks.sql"))
	must(t, s.Apply(t.Context(), fstest.MapFS{"mysql/00001_tasks.sql": {Data: first}}))
	const write = "INSERT INTO duetime_tasks (id, kind, owner, due_at, run_at, payload, created_at, updated_at) VALUES (?, 'k', 'o', 1, 1, '', 1, 1)"
	must(t, exec(s.DB(), write, rand.Text()[:16]))

	reader := begin(t, s)
	var n int
	must(t, reader.QueryRowxContext(t.Context(), "SELECT COUNT(*) FROM duetime_tasks").Scan(&n))
	migrating := make(chan error, 1)
	go func() { migrating <- s.Migrate(t.Context(), migrations.Files, "test", shards) }()
	var longest time.Duration
	for began := time.Now(); time.Since(began) < 6*time.Second; {
		asked := time.Now()
		must(t, exec(s.DB(), write, rand.Text()[:16]))
		longest = max(longest, time.Since(asked))
	}
	select {
	case err := <-migrating:
		t.Fatalf("migrated beside an open reader: %v", err)
	default:
	}
	if longest > 4*time.Second {
		t.Errorf("a writer waited %v behind the migration, want some 1 s", longest)
	}
	if longest < 100*time.Millisecond {
		t.Errorf("no writer met the migration: the longest wait was %v", longest)
	}
	must(t, reader.Rollback())
	must(t, <-migrating)
	must(t, s.CheckMigrations(t.Context(), migrations.Files))
}

// Each change of a table names its algorithm, so that a server that can't use it refuses the change instead of copying
// the table.
// A build of an index waits for the table's transactions at its end. A try that failed there waits longer the next time:
// the build is not lost again and again. SLEEP stands for the build.
func TestLostBuildWaitsLonger(t *testing.T) {
	t.Parallel()
	s := opened(t, pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	must(t, exec(s.DB(), "CREATE TABLE big (n INT)"))
	reader := begin(t, s)
	must(t, exec(reader, "INSERT INTO big VALUES (1)"))
	files := fstest.MapFS{"mysql/00001_big.sql": {Data: []byte(
		"-- +goose NO TRANSACTION\n-- +goose Up\nDO SLEEP(5);\nALTER TABLE big ADD COLUMN m INT, ALGORITHM = INPLACE;\n",
	)}}
	ended := make(chan error, 1)
	go func() { ended <- s.Apply(t.Context(), files) }()
	waits := "SELECT COUNT(*) FROM " + pipelinetest.Connections(t) +
		" WHERE DB = DATABASE() AND STATE = 'Waiting for table metadata lock' AND TIME >= 3"
	pipelinetest.Await(t, "the try after the lost build waits", func() (waiting bool) {
		must(t, s.DB().QueryRowxContext(t.Context(), waits).Scan(&waiting))
		return waiting || len(ended) > 0
	})
	must(t, reader.Rollback())
	must(t, <-ended)
}

func TestEveryAlterSaysWhatItCosts(t *testing.T) {
	t.Parallel()
	files := value[[]string](t)(fs.Glob(migrations.Files, "mysql/*.sql"))
	for _, file := range files {
		text, _, _ := strings.Cut(string(value[[]byte](t)(migrations.Files.ReadFile(file))), "-- +goose Down")
		for _, statement := range strings.Split(text, ";\n") {
			if strings.Contains(statement, "ALTER TABLE") && (!strings.Contains(statement, "ALGORITHM = ") || !strings.Contains(statement, "LOCK = ")) {
				t.Errorf("%s: without ALGORITHM and LOCK:\n%s", file, statement)
			}
		}
	}
}

// A table, or a view, that the package's comment lacks would have no owner that a reader finds.
func TestDocNamesEveryTable(t *testing.T) {
	t.Parallel()
	doc := string(value[[]byte](t)(os.ReadFile("doc.go")))
	for _, file := range value[[]string](t)(fs.Glob(migrations.Files, "mysql/*.sql")) {
		number, _, _ := strings.Cut(filepath.Base(file), "_")
		text := string(value[[]byte](t)(migrations.Files.ReadFile(file)))
		for _, made := range regexp.MustCompile(`(?:CREATE TABLE IF NOT EXISTS|SECURITY INVOKER VIEW) (\w+)`).FindAllStringSubmatch(text, -1) {
			if want := "//   - " + made[1] + " (" + number + "): "; !strings.Contains(doc, want) {
				t.Errorf("doc.go lacks a line that begins with %q", want)
			}
		}
	}
}
