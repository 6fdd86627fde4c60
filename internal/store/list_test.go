package store_test

import (
	"context"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// A list ends on the server too when its caller's time is over. Here the caller's statement has no deadline, so the answer is
// the server's.
func TestListEndsOnTheServer(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	// MySQL ends SLEEP by the answer 1, MariaDB by an error; a SLEEP that comes to its end answers 0.
	asleep := 1
	err := s.DB().GetContext(t.Context(), &asleep, store.SelectUntil(ctx)+"SLEEP(10)")
	if err == nil && asleep == 0 {
		t.Error("the statement went on")
	}
}

// tellingAll makes connections that tell the queries that they send.
type tellingAll struct {
	driver.Connector
	sent func(query string)
}

func (a tellingAll) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := a.Connector.Connect(ctx)
	return telling{&proxied{Conn: c, meddle: func(statement string) (string, error) { return statement, nil }}, a.sent}, err
}

type telling struct {
	*proxied
	sent func(query string)
}

func (c telling) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.sent(query)
	return c.proxied.QueryContext(ctx, query, args)
}

// So does each statement of Live that reads tasks: who asks again and again leaves none behind.
func TestLiveEndsOnTheServer(t *testing.T) {
	t.Parallel()
	_, dsn := openMySQLStore(t, store.Options{})
	var reads []string
	s, err := store.OpenThrough(dsn, store.Options{MaxOpen: 1}, func(c driver.Connector) driver.Connector {
		return tellingAll{c, func(query string) {
			if strings.Contains(query, "duetime_tasks") {
				reads = append(reads, query)
			}
		}}
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	inserted(t, s, newTask(t, "ann", 0))
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1, finished_at = ?, updated_at = ?", t0.UnixMilli(), t0.UnixMilli()))
	reads = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := value[store.Live](t)(s.Live(ctx, time.Minute)); got.Fired != 1 || len(reads) < 8 {
		t.Errorf("%d tasks fired by %d statements", got.Fired, len(reads))
	}
	for _, query := range reads {
		if !strings.Contains(query, "MAX_EXECUTION_TIME(") || strings.Contains(query, "MAX_EXECUTION_TIME(0)") {
			t.Errorf("the server goes on with %s", query)
		}
	}
}

// All reads without a bound of their own have that limit.
func TestListsHaveALimitOnTheServer(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	locking, err := s.DB().Connx(t.Context())
	must(t, err)
	defer func() { must(t, locking.Close()) }()
	_, err = locking.ExecContext(t.Context(), "LOCK TABLES duetime_tasks WRITE, duetime_recurrences WRITE")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true}}
	reads := []func() error{
		func() error { _, err := s.List(ctx, store.Filter{}); return err },
		func() error { _, err := s.ListRecurrences(ctx, store.RecurrenceFilter{Limit: 1}); return err },
		func() error { _, err := s.CountMatching(ctx, o); return err },
		func() error { _, err := s.Matching(ctx, o, 1); return err },
		func() error { _, err := s.Counts(ctx); return err },
		func() error { _, err := s.Count(ctx, task.Pending); return err },
		func() error { _, err := s.AllUnhandled(ctx); return err },
	}
	var calls errgroup.Group
	for _, read := range reads {
		calls.Go(read)
	}
	query := "SELECT COUNT(*) FROM " + pipelinetest.Connections(t) +
		" WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table%' AND INFO LIKE '%MAX_EXECUTION_TIME%'"
	for n := 0; n < len(reads); {
		if err := s.DB().GetContext(ctx, &n, query); err != nil {
			t.Fatalf("not all of %d reads have a limit: %v", len(reads), err)
		}
	}
	_, err = locking.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	must(t, calls.Wait())
}
