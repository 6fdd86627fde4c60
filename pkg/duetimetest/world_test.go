package duetimetest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // as a service would import it

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// Expire ends an order.
type Expire struct {
	Order int    `json:"order"`
	Why   string `json:"why,omitempty"`
}

var (
	expire = task.NewKind[Expire]("order.expire", task.MaxAttempts(3), task.Retry(task.Backoff{Min: time.Second, Max: 2 * time.Second}))
	remind = task.NewKind[Expire]("order.remind")
	mail   = task.NewKind[Expire]("order.mail")
)

// traced wraps a driver, as packages that watch statements do.
type traced struct{ driver.Driver }

func init() { sql.Register("traced", traced{&mysql.MySQLDriver{}}) }

// shop is a service under test, on its own handle.
type shop struct {
	t      *testing.T
	db     duetimetest.DB
	plain  *sql.DB
	client *schedule.Client
	now    time.Time
}

// shops runs the test on both databases, with all kinds of handles. Most tests run on one: these are about the handle.
func shops(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	for _, driver := range []string{"mysql", "traced"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db := opened(t, driver, pipelinetest.MySQL(t).NewSchema(t))
			test(t, newShop(t, db, db))
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := opened(t, "sqlite", filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
		test(t, newShop(t, sqlx.NewDb(db, "sqlite"), db))
	})
}

func onMySQL(t *testing.T) *shop {
	t.Helper()
	db := opened(t, "mysql", worldtest.Schema(t))
	return newShop(t, db, db)
}

func opened(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, db.Close()) })
	return db
}

func newShop(t *testing.T, db duetimetest.DB, plain *sql.DB) *shop {
	t.Helper()
	duetimetest.Migrate(t, db)
	duetimetest.Migrate(t, db)
	_, err := plain.ExecContext(t.Context(), "CREATE TABLE effects (seq INT, word VARCHAR(64), at_ms BIGINT)")
	pipelinetest.Must(t, err)
	return &shop{t: t, db: db, plain: plain, client: duetimetest.Client(t, db), now: time.Now()}
}

func (s *shop) schedule(specs ...task.Spec) {
	s.t.Helper()
	pipelinetest.Must(s.t, s.client.InTx(s.t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.ScheduleMany(s.t.Context(), specs)
		return err
	}))
}

// effect records the payload and the time that the handler saw.
func effect(ctx context.Context, tx *worker.Tx, t worker.Task[Expire]) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects SELECT COUNT(*), ?, ? FROM effects", fmt.Sprint(t.Kind, t.Payload.Order), now.UnixMilli())
	return err
}

// effects returns the recorded words, in order.
func (s *shop) effects() []string {
	s.t.Helper()
	rows, err := s.plain.QueryContext(s.t.Context(), "SELECT word FROM effects ORDER BY seq")
	pipelinetest.Must(s.t, err)
	defer func() { _ = rows.Close() }()
	var words []string
	for rows.Next() {
		var word string
		pipelinetest.Must(s.t, rows.Scan(&word))
		words = append(words, word)
	}
	pipelinetest.Must(s.t, rows.Err())
	return words
}

// refusal runs fn with a test of its own and returns the failure; empty if there is none.
func refusal(t *testing.T, fn func(t testing.TB)) string {
	t.Helper()
	fake := &fakeTest{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(fake)
	}()
	<-ended
	return fake.fatal
}

// fakeTest is a test that may fail.
type fakeTest struct {
	testing.TB
	fatal string
}

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
