package timers_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/duetime/duetime/examples/timers"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// story is a game on a clock of its own, which no worker serves unless a test advances it with handlers.
type story struct {
	*timers.Game
	t     *testing.T
	db    *sql.DB
	clock *duetimetest.Clock
	tasks *schedule.Client
}

func begin(t *testing.T) *story {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "game.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	duetimetest.Migrate(t, db)
	clock := duetimetest.NewClock(t, db)
	s := &story{t: t, db: db, clock: clock, tasks: duetimetest.Client(t, db, duetimetest.On(clock), duetimetest.Handlers(timers.Handlers()))}
	s.Game = timers.NewGame(s.tasks)
	for _, table := range timers.Tables {
		s.exec(table)
	}
	s.exec("INSERT INTO players VALUES ('ada', 10, 15)")
	s.exec("INSERT INTO buildings VALUES ('ada', 'wall', 1)")
	s.exec("INSERT INTO auctions VALUES ('sword', '', 0, 0)")
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *story) exec(query string) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), query)
	must(s.t, err)
}

func (s *story) number(query string) (n int) {
	s.t.Helper()
	must(s.t, s.db.QueryRowContext(s.t.Context(), query).Scan(&n))
	return n
}

func (s *story) wantEnergy(want int) {
	s.t.Helper()
	if got, err := s.Energy(s.t.Context(), "ada"); err != nil || got != want {
		s.t.Errorf("energy is %d, %v; want %d", got, err, want)
	}
}

// Energy is right at any moment, though no worker runs.
func TestEnergy(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.wantEnergy(10)
	must(t, s.Spend(t.Context(), "ada", 9))
	s.wantEnergy(1)
	s.clock.Advance(t, 17*time.Minute, nil)
	s.wantEnergy(4)
	must(t, s.Spend(t.Context(), "ada", 4))
	s.clock.Advance(t, 4*time.Minute, nil) // the point of minute 20 was under way
	s.wantEnergy(1)
	s.clock.Advance(t, time.Hour, nil)
	s.wantEnergy(10)
	if err := s.Spend(t.Context(), "ada", 11); !errors.Is(err, timers.ErrTired) {
		t.Errorf("spent 11: %v", err)
	}
}

// A card that makes the building due has it there at once: nobody settles anything after.
func TestSpeedUp(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.exec("UPDATE players SET gems = 30")
	level := func() int { return s.number("SELECT level FROM buildings") }
	wall, err := s.Build(t.Context(), "ada", "wall")
	must(t, err)
	s.clock.Advance(t, time.Minute, nil)
	for range 2 {
		must(t, s.SpeedUp(t.Context(), "ada", wall))
	}
	if level() != 1 {
		t.Errorf("level %d after two cards", level())
	}
	must(t, s.SpeedUp(t.Context(), "ada", wall))
	if level() != 2 || s.number("SELECT gems FROM players") != 0 {
		t.Errorf("level %d, %d gems", level(), s.number("SELECT gems FROM players"))
	}
	s.exec("UPDATE players SET gems = 30")
	if err := s.SpeedUp(t.Context(), "ada", wall); !errors.Is(err, task.ErrAlreadyDone) || s.number("SELECT gems FROM players") != 30 {
		t.Errorf("once more: %v, %d gems", err, s.number("SELECT gems FROM players"))
	}
	second, err := s.Build(t.Context(), "ada", "wall")
	must(t, err)
	s.clock.Advance(t, timers.BuildTime, nil) // it is due, and no worker has run it: the card is kept
	if err := s.SpeedUp(t.Context(), "ada", second); !errors.Is(err, task.ErrAlreadyDone) || s.number("SELECT gems FROM players") != 30 {
		t.Errorf("of one that is due: %v, %d gems", err, s.number("SELECT gems FROM players"))
	}
}

func TestFinishNow(t *testing.T) {
	t.Parallel()
	s := begin(t)
	level := func() int { return s.number("SELECT level FROM buildings") }
	wall, err := s.Build(t.Context(), "ada", "wall")
	must(t, err)
	s.clock.Advance(t, 14*time.Minute, timers.Handlers())
	if level() != 1 {
		t.Errorf("level %d a minute before its end", level())
	}
	must(t, s.FinishNow(t.Context(), "ada", wall))
	if level() != 2 || s.number("SELECT gems FROM players") != 5 {
		t.Errorf("level %d, %d gems", level(), s.number("SELECT gems FROM players"))
	}
	s.clock.Advance(t, time.Hour, timers.Handlers())
	if err := s.FinishNow(t.Context(), "ada", wall); !errors.Is(err, task.ErrAlreadyDone) || level() != 2 {
		t.Errorf("once more: %v, level %d", err, level())
	}
	again, err := s.Build(t.Context(), "ada", "wall")
	must(t, err)
	if err := s.FinishNow(t.Context(), "ada", again); !errors.Is(err, timers.ErrTired) || level() != 2 {
		t.Errorf("without gems: %v, level %d", err, level())
	}
	s.clock.Advance(t, timers.BuildTime, timers.Handlers())
	if level() != 3 {
		t.Errorf("level %d, want it built in time", level())
	}
}

func TestAuction(t *testing.T) {
	t.Parallel()
	s := begin(t)
	ends, err := s.tasks.Schedule(t.Context(), timers.AuctionEnd.New("house", struct{}{}, task.In(10*time.Minute), task.Subject("sword")))
	must(t, err)
	bid := func(player string, n int) error { return s.Bid(t.Context(), "sword", ends.ID, player, n) }
	due := func() time.Time {
		row, err := s.tasks.Get(t.Context(), ends.ID)
		must(t, err)
		return row.DueAt
	}
	must(t, bid("ada", 1))
	if !due().Equal(ends.DueAt) {
		t.Error("an early bid has put the end off")
	}
	s.clock.Advance(t, 9*time.Minute+30*time.Second, nil)
	must(t, bid("bob", 2))
	if got := due().Sub(ends.DueAt); got != timers.LastCall {
		t.Errorf("a late bid has put the end off by %v", got)
	}
	if err := bid("ada", 2); !errors.Is(err, timers.ErrOver) {
		t.Errorf("too low: %v", err)
	}
	if got := due().Sub(ends.DueAt); got != timers.LastCall {
		t.Errorf("a bid that was refused has put the end off, by %v", got)
	}
	s.clock.Advance(t, 2*time.Minute, nil) // its time has come, and no worker runs
	if err := bid("ada", 3); !errors.Is(err, timers.ErrOver) {
		t.Errorf("after the end: %v", err)
	}
	s.clock.Advance(t, time.Second, timers.Handlers())
	if s.number("SELECT COUNT(*) FROM auctions WHERE over = 1 AND bidder = 'bob' AND bid = 2") != 1 {
		t.Error("bob has not won")
	}
}
