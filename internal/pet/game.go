package pet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Refusals of a call that changes nothing; the API answers 404 for the first and 409 for the others.
var (
	errNoPet         = errors.New("no such pet")
	errAlreadyEating = rule{"already_eating", "the pet is eating"}
	errNotEating     = rule{"not_eating", "the pet is not eating"}
	errNoFood        = rule{"no_food", "the pet has no food left"}
	errNoCard        = rule{"no_card", "the pet has no such card left"}
)

// rule is a refusal by the game's rules. It is returned before anything is written.
type rule struct{ code, message string }

func (r rule) Error() string { return r.message }

// errMoved says that the pet has changed after the rules were checked.
var errMoved error = movedError{}

type movedError struct{}

func (movedError) Error() string { return "the pet has changed meanwhile" }

// Retryable makes InTx roll back and run the transaction again.
func (movedError) Retryable() bool { return true }

// Game applies the rules, each call inside the given transaction. It is safe for concurrent use.
type Game struct {
	current atomic.Pointer[Rules]
	tables  tables
}

// NewGame makes the game.
func NewGame(rules Rules) *Game {
	g := &Game{}
	g.SetRules(rules)
	return g
}

// SetRules changes the rules: for new pets, and for meals that begin or are sped up from now on.
func (g *Game) SetRules(rules Rules) { g.current.Store(&rules) }

func (g *Game) rules() Rules { return *g.current.Load() }

// Create makes a pet with the food and cards of a new pet.
func (g *Game) Create(ctx context.Context, tx *schedule.Tx, owner, name string) (Pet, error) {
	r := row{
		Owner: owner, Name: name, Food: g.rules().Food,
		SpeedupCards: g.rules().SpeedupCards, AutofeedCards: g.rules().AutofeedCards,
	}
	var err error
	if r.ID, err = g.tables.insert(ctx, tx, r); err != nil {
		return Pet{}, err
	}
	return r.view(task.Task{}), nil
}

// Get shows a pet as it is at this moment: what is due for its owner takes effect before. What only a worker may run, or
// what fails, is shown as it stands.
func (g *Game) Get(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, err := g.tables.read(ctx, tx, id)
	if err != nil {
		return Pet{}, err
	}
	if _, err := tx.SettleDue(ctx, r.Owner); err != nil {
		return Pet{}, err
	}
	r, meal, err := g.look(ctx, tx, id)
	if err != nil {
		return Pet{}, err
	}
	return r.view(meal), nil
}

// Feed starts a meal. The pet is locked first, which is safe because the task is new.
func (g *Game) Feed(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, meal, err := g.lock(ctx, tx, id)
	switch {
	case err != nil:
		return Pet{}, err
	case eating(meal):
		return Pet{}, errAlreadyEating
	case r.Food < 1:
		return Pet{}, errNoFood
	}
	meal, err = tx.Schedule(ctx, MealFinished.New(r.Owner, MealPayload{PetID: id}, task.In(g.rules().Meal), task.Subject(r.subject())))
	if err != nil {
		return Pet{}, err
	}
	r.Food--
	return g.save(ctx, tx, r.startMeal(meal.ID, byHand), meal, eventFed)
}

// Autofeed arms a card: when the meal ends, the pet is fed once more. Autofeed changes no task, so it locks the pet
// first: the worker that ends the meal needs that lock too.
func (g *Game) Autofeed(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, meal, err := g.lock(ctx, tx, id)
	switch {
	case err != nil:
		return Pet{}, err
	case !eating(meal):
		return Pet{}, errNotEating
	case r.AutofeedCards < 1:
		return Pet{}, errNoCard
	}
	r.AutofeedCards--
	r.AutofeedArmed++
	return g.save(ctx, tx, r, meal, eventArmed)
}

// Speedup moves the end of the current meal forward.
func (g *Game) Speedup(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, meal, err := g.look(ctx, tx, id)
	switch {
	case err != nil:
		return Pet{}, err
	case !eating(meal):
		return Pet{}, errNotEating
	case r.SpeedupCards < 1:
		return Pet{}, errNoCard
	}
	if meal, err = tx.Shift(ctx, meal.ID, -g.rules().Speedup); err != nil {
		return Pet{}, meanwhile(err)
	}
	if r, err = g.lockEating(ctx, tx, id, meal.ID); err != nil {
		return Pet{}, err
	}
	if r.SpeedupCards < 1 {
		return Pet{}, errMoved // not errNoCard: the task was moved here, and the move must be rolled back
	}
	r.SpeedupCards--
	return g.save(ctx, tx, r, meal, eventSpedUp)
}

// Cancel cancels the meal: the pet gets its food and its armed cards back.
func (g *Game) Cancel(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	_, meal, err := g.look(ctx, tx, id)
	switch {
	case err != nil:
		return Pet{}, err
	case !eating(meal):
		return Pet{}, errNotEating
	}
	if meal, err = tx.Cancel(ctx, meal.ID); err != nil {
		return Pet{}, meanwhile(err)
	}
	r, err := g.lockEating(ctx, tx, id, meal.ID)
	if err != nil {
		return Pet{}, err
	}
	r.Food++
	r.AutofeedCards += r.AutofeedArmed
	r.AutofeedArmed = 0
	r.MealTaskID, r.MealSource = nil, nil
	return g.save(ctx, tx, r, meal, eventCancelled)
}

// look reads a pet and its meal without locking them. These are two reads: if the second finds the meal over, a third
// read tells whether the pet has started its next meal in between.
func (g *Game) look(ctx context.Context, tx *schedule.Tx, id int64) (row, task.Task, error) {
	r, err := g.tables.read(ctx, tx, id)
	if err != nil {
		return row{}, task.Task{}, err
	}
	meal, err := g.meal(ctx, tx, r)
	if err != nil || eating(meal) {
		return r, meal, err
	}
	reread, err := g.tables.read(ctx, tx, id)
	if err == nil && !reread.mealID().IsZero() && reread.mealID() != r.mealID() {
		err = errMoved
	}
	return reread, task.Task{}, err
}

// lock locks a pet and reads its meal. The meal can't end then: its worker needs the pet.
func (g *Game) lock(ctx context.Context, tx *schedule.Tx, id int64) (row, task.Task, error) {
	r, err := g.tables.lock(ctx, tx, id)
	if err != nil {
		return row{}, task.Task{}, err
	}
	meal, err := g.meal(ctx, tx, r)
	return r, meal, err
}

// lockEating locks the pet after its meal's task, and checks that the pet still has that meal.
func (g *Game) lockEating(ctx context.Context, tx *schedule.Tx, id int64, meal task.ID) (row, error) {
	r, err := g.tables.lock(ctx, tx, id)
	if err == nil && r.mealID() != meal {
		err = errMoved
	}
	return r, err
}

// meal reads the task of the current meal; the zero task when the pet is not eating. A pet keeps the id of a task that an
// operator cancelled, or that died, until it is fed again.
func (g *Game) meal(ctx context.Context, tx tasks, r row) (task.Task, error) {
	if r.mealID().IsZero() {
		return task.Task{}, nil
	}
	t, err := tx.Get(ctx, r.mealID())
	if errors.Is(err, task.ErrNotFound) || err == nil && t.State != task.Pending {
		return task.Task{}, nil
	}
	return t, err
}

// tasks reads tasks, in a service's transaction or in a handler's.
type tasks interface {
	Get(ctx context.Context, id task.ID) (task.Task, error)
}

// eating reports whether a meal is going on.
func eating(meal task.Task) bool { return !meal.ID.IsZero() && meal.State == task.Pending }

// save writes the pet and its journal line, and returns the pet as the API shows it.
func (g *Game) save(ctx context.Context, tx *schedule.Tx, r row, meal task.Task, event string) (Pet, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return Pet{}, err
	}
	if err := g.tables.update(ctx, tx, r); err != nil {
		return Pet{}, err
	}
	if err := g.tables.journal(ctx, tx, line(r, meal, event, now)); err != nil {
		return Pet{}, err
	}
	return r.view(meal), nil
}

func line(r row, t task.Task, event string, now time.Time) journalLine {
	return journalLine{
		PetID: r.ID, Owner: r.Owner, Event: event, TaskID: t.ID.String(), Version: t.Version,
		DueAtMs: t.DueAt.UnixMilli(), AtMs: now.UnixMilli(),
	}
}

// meanwhile turns the error of a meal that ended after it was read into errMoved, so that the transaction runs again.
func meanwhile(err error) error {
	if hasEnded(err) {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return err
}

func hasEnded(err error) bool {
	return errors.Is(err, task.ErrFinished) || errors.Is(err, task.ErrNotFound)
}
