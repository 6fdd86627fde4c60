// Package timers has the timers of a strategy game: energy that refills, a building under construction that cards speed up and
// gems finish at once, and an auction that a late bid puts off. Each reads fresh: what is due takes effect before anybody sees
// the state.
package timers

import (
	"context"
	"errors"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// The game's rules.
const (
	FullEnergy = 10
	RefillTime = 5 * time.Minute
	BuildTime  = 15 * time.Minute
	CardTime   = 5 * time.Minute // of a speed-up card
	LastCall   = time.Minute     // a bid this late puts the auction's end off, by as much
)

// Building is what is under construction.
type Building struct {
	Name string `json:"name"`
}

// The kinds of the game's tasks.
var (
	Refill     = task.NewKind[struct{}]("energy.refill")
	Built      = task.NewKind[Building]("building.built")
	AuctionEnd = task.NewKind[struct{}]("auction.end")
)

// Tables are those of the game.
var Tables = []string{
	"CREATE TABLE players (name VARCHAR(64) PRIMARY KEY, energy INT NOT NULL, gems INT NOT NULL)",
	"CREATE TABLE buildings (player VARCHAR(64), name VARCHAR(64), level INT NOT NULL, PRIMARY KEY (player, name))",
	"CREATE TABLE auctions (id VARCHAR(64) PRIMARY KEY, bidder VARCHAR(64) NOT NULL, bid INT NOT NULL, over INT NOT NULL)",
}

// Errors of players.
var (
	ErrTired = errors.New("not enough energy, or gems")
	ErrOver  = errors.New("the auction is over, or the bid too low")
)

// Handlers are for the workers, and for the client that reads.
func Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, Refill, refill)
	worker.Handle(mux, Built, built)
	worker.Handle(mux, AuctionEnd, end)
	return mux
}

// refill gives a point, and comes again until there are enough. After an hour away it runs for each five minutes of the hour.
func refill(ctx context.Context, tx *worker.Tx, t worker.Task[struct{}]) error {
	if _, err := tx.ExecContext(ctx, "UPDATE players SET energy = energy + 1 WHERE name = ? AND energy < ?", t.Owner, FullEnergy); err != nil {
		return err
	}
	var energy int
	if err := tx.GetContext(ctx, &energy, "SELECT energy FROM players WHERE name = ?", t.Owner); err != nil || energy == FullEnergy {
		return err
	}
	_, err := tx.Reschedule(ctx, t.ID, task.In(RefillTime))
	return err
}

func built(ctx context.Context, tx *worker.Tx, t worker.Task[Building]) error {
	_, err := tx.ExecContext(ctx, "UPDATE buildings SET level = level + 1 WHERE player = ? AND name = ?", t.Owner, t.Payload.Name)
	return err
}

func end(ctx context.Context, tx *worker.Tx, t worker.Task[struct{}]) error {
	_, err := tx.ExecContext(ctx, "UPDATE auctions SET over = 1 WHERE id = ?", t.Subject)
	return err
}

// Game is the service.
type Game struct{ tasks *schedule.Client }

// NewGame makes a game whose client has the game's handlers.
func NewGame(tasks *schedule.Client) *Game { return &Game{tasks} }

// Energy is what the player has at this moment.
func (g *Game) Energy(ctx context.Context, player string) (energy int, err error) {
	err = g.tasks.Fresh(ctx, player, func(tx *schedule.Tx, _ schedule.Settled) error {
		return tx.GetContext(ctx, &energy, "SELECT energy FROM players WHERE name = ?", player)
	})
	return energy, err
}

// Spend takes energy, and has it refilled.
func (g *Game) Spend(ctx context.Context, player string, n int) error {
	return g.tasks.Fresh(ctx, player, func(tx *schedule.Tx, _ schedule.Settled) error {
		if _, err := tx.Schedule(ctx, Refill.New(player, struct{}{}, task.In(RefillTime), task.Key("refill"))); err != nil {
			return err // the key: one that is under way goes on
		}
		return take(ctx, tx, "UPDATE players SET energy = energy - ? WHERE name = ? AND energy >= ?", n, player, n)
	})
}

// Build begins a building's next level, and returns the task that ends it.
func (g *Game) Build(ctx context.Context, player, building string) (task.ID, error) {
	t, err := g.tasks.Schedule(ctx, Built.New(player, Building{building}, task.In(BuildTime), task.Subject(building), task.Key(building)))
	return t.ID, err
}

// SpeedUp uses a card, for ten gems, by which the construction ends five minutes sooner. If that is now, the building is there
// at once.
func (g *Game) SpeedUp(ctx context.Context, player string, construction task.ID) error {
	return g.tasks.Fresh(ctx, player, func(tx *schedule.Tx, _ schedule.Settled) error {
		t, err := tx.Shift(ctx, construction, -CardTime)
		if err != nil {
			return err // task.ErrAlreadyDone: it has ended by itself, and costs nothing
		}
		now, err := tx.Now(ctx)
		if err == nil && !t.DueAt.After(now) {
			_, err = tx.RunNow(ctx, construction)
		}
		if err != nil {
			return err
		}
		return take(ctx, tx, "UPDATE players SET gems = gems - ? WHERE name = ? AND gems >= ?", 10, player, 10)
	})
}

// FinishNow ends the construction for ten gems.
func (g *Game) FinishNow(ctx context.Context, player string, construction task.ID) error {
	return g.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.RunNow(ctx, construction); err != nil {
			return err // task.ErrAlreadyDone: it has ended by itself, and costs nothing
		}
		return take(ctx, tx, "UPDATE players SET gems = gems - ? WHERE name = ? AND gems >= ?", 10, player, 10)
	})
}

// Bid bids for what the auction sells. The auction's task names it in its subject.
func (g *Game) Bid(ctx context.Context, auction string, ends task.ID, player string, bid int) error {
	return g.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Extend(ctx, ends, LastCall, schedule.IfDueWithin(LastCall)); errors.Is(err, task.ErrDue) || errors.Is(err, task.ErrFinished) {
			return ErrOver // also if no worker has ended it yet
		} else if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, "UPDATE auctions SET bidder = ?, bid = ? WHERE id = ? AND bid < ?", player, bid, auction, bid)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrOver, err)
		}
		return nil
	})
}

// take runs an UPDATE that changes a row only if there is enough.
func take(ctx context.Context, tx *schedule.Tx, update string, args ...any) error {
	r, err := tx.ExecContext(ctx, update, args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrTired, err)
	}
	return nil
}
