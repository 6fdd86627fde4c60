package store_test

import (
	"context"
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
