package moving_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver

	"github.com/duetime/duetime/examples/moving"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/recur"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// story is a service on a clock of its own.
type story struct {
	*moving.Service
	t     *testing.T
	db    *sqlx.DB
	clock *duetimetest.Clock
	old   old
}

func begin(t *testing.T) *story {
	t.Helper()
	db, err := sqlx.Open("sqlite", filepath.Join(t.TempDir(), "trials.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, db.Close()) })
	duetimetest.Migrate(t, db)
	for _, table := range moving.Tables {
		_, err := db.ExecContext(t.Context(), table)
		pipelinetest.Must(t, err)
	}
	clock := duetimetest.NewClock(t, db)
	return &story{moving.NewService(duetimetest.Client(t, db, duetimetest.On(clock))), t, db, clock, old{db}}
}

func (s *story) backfill(want int) {
	s.t.Helper()
	if found, err := s.Backfill(s.t.Context()); err != nil || found != want {
		s.t.Errorf("backfilled %d trials, %v; want %d", found, err, want)
	}
}

// wantBill wants one bill for trial 1, so long after the beginning.
func (s *story) wantBill(began time.Time, after time.Duration) {
	s.t.Helper()
	var at []int64
	pipelinetest.Must(s.t, s.db.SelectContext(s.t.Context(), &at, "SELECT at FROM bills WHERE trial = 1"))
	if len(at) != 1 {
		s.t.Fatalf("%d bills, want one", len(at))
	}
	if got := time.UnixMilli(at[0]).Sub(began); got < after || got > after+30*time.Minute {
		s.t.Errorf("the bill is of %v after the beginning, want %v", got, after)
	}
}

// Each trial of the old version is billed once, at its end, whatever the old version does with it after it has got its task.
func TestTrialsOfTheOldVersion(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, c := range map[string]struct {
		ends, moved, scanned, billed time.Duration // after the beginning; 0 means never
		again                        int           // trials that a second backfill finds
	}{
		"stays":          {ends: hour, billed: hour},
		"ended by cron":  {ends: hour, scanned: 2 * hour, billed: 2 * hour},
		"put off":        {ends: hour, moved: 3 * hour, billed: 3 * hour},
		"put off, found": {ends: hour, moved: 3 * hour, billed: 3 * hour, again: 1},
		"put ahead":      {ends: 5 * hour, moved: 4 * hour, billed: 4 * hour, again: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			began := s.clock.Now(t)
			pipelinetest.Must(t, s.old.start(t.Context(), 1, "ada", began.Add(c.ends)))
			s.backfill(1)
			s.backfill(0)
			if c.moved > 0 {
				pipelinetest.Must(t, s.old.extend(t.Context(), 1, began.Add(c.moved)))
			}
			if c.again > 0 {
				s.backfill(c.again)
			}
			if c.scanned > 0 {
				if n, err := s.old.scan(t.Context(), began.Add(c.scanned)); err != nil || n != 1 {
					t.Errorf("cron ended %d trials, %v; want 1", n, err)
				}
			}
			s.clock.Advance(t, 10*hour, moving.Handlers())
			s.wantBill(began, c.billed)
			duetimetest.RequireNotScheduled(t, s.db, moving.TrialEnd, "ada")
		})
	}
}

// A trial of the old version may be extended by the new one before any backfill, and not once it has ended.
func TestExtend(t *testing.T) {
	t.Parallel()
	s, ctx := begin(t), t.Context()
	began := s.clock.Now(t)
	pipelinetest.Must(t, s.old.start(ctx, 1, "ada", began.Add(time.Hour)))
	pipelinetest.Must(t, s.Extend(ctx, 1, "ada", began.Add(2*time.Hour)))
	s.backfill(0)
	s.clock.Advance(t, 3*time.Hour, moving.Handlers())
	s.wantBill(began, 2*time.Hour)
	if err := s.Extend(ctx, 1, "ada", began.Add(9*time.Hour)); !errors.Is(err, moving.ErrEnded) {
		t.Errorf("got %v for a trial that has ended, want %v", err, moving.ErrEnded)
	}
	duetimetest.RequireNotScheduled(t, s.db, moving.TrialEnd, "ada")
}

// A message that is read twice makes one task, also if the first one has run.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s, ctx := begin(t), t.Context()
	began := s.clock.Now(t)
	pipelinetest.Must(t, s.old.start(ctx, 1, "ada", began.Add(time.Hour)))
	message := moving.Message{ID: "m-1", Customer: "ada", Trial: 1, Due: began.Add(time.Hour)}
	for i, want := range []bool{true, false} {
		if made, err := s.Adopt(ctx, message); err != nil || made != want {
			t.Errorf("read %d: made %v, %v; want %v", i, made, err, want)
		}
	}
	s.clock.Advance(t, 2*time.Hour, moving.Handlers())
	s.wantBill(began, time.Hour)
	if made, err := s.Adopt(ctx, message); err != nil || made {
		t.Errorf("read after it has run: made %v, %v", made, err)
	}
}

// A recurrence that takes over makes no task for a tick of the scheduler of before.
func TestRecur(t *testing.T) {
	t.Parallel()
	s, ctx := begin(t), t.Context()
	from := s.clock.Now(t).Add(30 * 24 * time.Hour)
	first := recur.Cron("0 9 * * MON-FRI", "Europe/Berlin").Ticks(from, 1)
	for range 2 { // each start of the service says it again
		pipelinetest.Must(t, s.Recur(ctx, from))
	}
	duetimetest.RequireScheduled(t, s.db, moving.Report, "billing", duetimetest.DueAt(first[0]))
	if all := duetimetest.Scheduled(t, s.db, moving.Report, "billing"); len(all) != 1 {
		t.Errorf("%d reports are scheduled, want one", len(all))
	}
}

// TestMoveUnderLoad moves a service step by step, while trials begin, are moved and come to their ends all the time.
func TestMoveUnderLoad(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*embedded.Pipeline, error){
		"SQLite": func(t *testing.T) (*embedded.Pipeline, error) {
			t.Helper()
			return embedded.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "trials.db"), embedded.Config{})
		},
		"MySQL": func(t *testing.T) (*embedded.Pipeline, error) {
			t.Helper()
			return embedded.OpenMySQL(t.Context(), pipelinetest.MySQL(t).NewSchema(t), embedded.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := open(t)
			pipelinetest.Must(t, err)
			defer func() { pipelinetest.Must(t, p.Close(context.WithoutCancel(t.Context()))) }()
			for _, table := range moving.Tables {
				_, err := p.DB().ExecContext(t.Context(), table)
				pipelinetest.Must(t, err)
			}
			move(t, p)
		})
	}
}

// move goes through the steps of docs/MIGRATING.md.
func move(t *testing.T, p *embedded.Pipeline) {
	t.Helper()
	service, before := moving.NewService(p.Client), old{p.DB()}
	cron := running(t, func(ctx context.Context) error {
		_, err := before.scan(ctx, time.Now())
		return err
	})
	oldVersion := running(t, traffic(0, func(ctx context.Context, id int64, endsAt time.Time) error {
		return before.start(ctx, id, "ada", endsAt)
	}, before.extend))
	awaitBills(t, p.DB(), 5)

	ctx, cancel := context.WithCancel(t.Context())
	var workers errgroup.Group
	workers.Go(func() error { return p.Work(ctx, moving.Handlers()) })
	newVersion := running(t, traffic(1_000_000, func(ctx context.Context, id int64, endsAt time.Time) error {
		return service.Start(ctx, id, "bob", endsAt)
	}, func(ctx context.Context, id int64, endsAt time.Time) error {
		if err := service.Extend(ctx, id, "bob", endsAt); !errors.Is(err, moving.ErrEnded) {
			return err
		}
		return nil
	}))
	awaitBills(t, p.DB(), 15)
	oldVersion()
	pipelinetest.Must(t, before.start(t.Context(), -1, "ada", time.Now().Add(time.Second))) // the last thing that it did
	pipelinetest.Await(t, "a backfill that finds nothing", func() bool {
		found, err := service.Backfill(t.Context())
		pipelinetest.Must(t, err)
		return found == 0
	})
	cron()
	newVersion()
	pipelinetest.Await(t, "the end of each trial", func() bool {
		return count(t, p.DB(), "SELECT COUNT(*) FROM trials WHERE state = 'open'") == 0
	})
	cancel()
	pipelinetest.Must(t, workers.Wait())
	for what, query := range map[string]string{
		"lost":    "SELECT COUNT(*) FROM trials LEFT JOIN bills ON bills.trial = trials.id WHERE bills.trial IS NULL",
		"doubled": "SELECT COUNT(*) FROM (SELECT trial FROM bills GROUP BY trial HAVING COUNT(*) > 1) AS twice",
	} {
		if n := count(t, p.DB(), query); n != 0 {
			t.Errorf("%d effects %s", n, what)
		}
	}
}

// traffic starts a trial at each call, and gives an earlier one another end.
func traffic(first int64, start, extend func(context.Context, int64, time.Time) error) func(context.Context) error {
	next := first
	return func(ctx context.Context) error {
		next++
		if err := start(ctx, next, time.Now().Add(time.Duration(next%7)*100*time.Millisecond)); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		if err := extend(ctx, first+next/2%100, time.Now().Add(time.Duration(next%3)*200*time.Millisecond)); err != nil {
			return fmt.Errorf("extend: %w", err)
		}
		return nil
	}
}

// running calls fn again and again, until it is stopped; a call that has begun ends first.
func running(t *testing.T, fn func(context.Context) error) (stop func()) {
	t.Helper()
	stopped := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stopped:
				ticker.Stop()
				return nil
			case <-ticker.C:
			}
			if err := fn(t.Context()); err != nil {
				return err
			}
		}
	})
	return func() {
		t.Helper()
		close(stopped)
		pipelinetest.Must(t, group.Wait())
	}
}

func awaitBills(t *testing.T, db *sqlx.DB, n int) {
	t.Helper()
	already := count(t, db, "SELECT COUNT(*) FROM bills")
	pipelinetest.Await(t, "further bills", func() bool { return count(t, db, "SELECT COUNT(*) FROM bills") >= already+n })
}

func count(t *testing.T, db *sqlx.DB, query string) (n int) {
	t.Helper()
	pipelinetest.Must(t, db.GetContext(t.Context(), &n, query))
	return n
}
