package pet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Reasons for which a call changes nothing; the API answers 404 for the first and 409 for the others.
var (
	errNoPet         = errors.New("no such pet")
	errAlreadyEating = rule{"already_eating", "the pet is eating"}
	errNotEating     = rule{"not_eating", "the pet is not eating"}
	errNoFood        = rule{"no_food", "the pet has no food left"}
	errNoCard        = rule{"no_card", "the pet has no such card left"}
	errMoved         = errors.New("the pet has changed meanwhile")
)

// rule is a refusal by the game's rules.
type rule struct{ code, message string }

func (r rule) Error() string { return r.message }

// Game plays by the rules, each call inside the given transaction.
type Game struct {
	rules  Rules
	tables tables
}

// NewGame makes the game. forUpdate is the store's locking suffix.
func NewGame(rules Rules, forUpdate string) *Game {
	return &Game{rules: rules, tables: tables{forUpdate: forUpdate}}
}

// Create makes a pet with what new pets have.
func (g *Game) Create(ctx context.Context, tx *schedule.Tx, owner, name string) (Pet, error) {
	r := row{
		Owner: owner, Name: name, Food: g.rules.Food,
		SpeedupCards: g.rules.SpeedupCards, AutofeedCards: g.rules.AutofeedCards,
	}
	var err error
	if r.ID, err = g.tables.insert(ctx, tx, r); err != nil {
		return Pet{}, err
	}
	return r.view(task.Task{}), nil
}

// Get shows a pet. The pet and its meal are two reads: when they don't fit, a meal has ended between them.
func (g *Game) Get(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	for {
		r, err := g.tables.read(ctx, tx, id)
		if err != nil {
			return Pet{}, err
		}
		meal, err := g.meal(ctx, tx, r)
		if err != nil {
			return Pet{}, err
		}
		if r.mealID().IsZero() || meal.State == task.Pending {
			return r.view(meal), nil
		}
		again, err := g.tables.read(ctx, tx, id)
		if err != nil {
			return Pet{}, err
		}
		if again.mealID() == r.mealID() {
			return again.view(meal), nil
		}
	}
}

// meal reads the task of the pet's latest meal; the zero task when it has none or it was purged.
func (g *Game) meal(ctx context.Context, tx *schedule.Tx, r row) (task.Task, error) {
	if r.mealID().IsZero() {
		return task.Task{}, nil
	}
	t, err := tx.Get(ctx, r.mealID())
	if errors.Is(err, task.ErrNotFound) {
		return task.Task{}, nil
	}
	return t, err
}

// eating reports whether the meal read by meal is going on.
func eating(meal task.Task) bool { return !meal.ID.IsZero() && meal.State == task.Pending }

// Feed starts a meal. The pet is locked first, which is safe because the task is new.
func (g *Game) Feed(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, err := g.tables.lock(ctx, tx, id)
	if err != nil {
		return Pet{}, err
	}
	meal, err := g.meal(ctx, tx, r)
	switch {
	case err != nil:
		return Pet{}, err
	case eating(meal):
		return Pet{}, errAlreadyEating
	case r.Food < 1:
		return Pet{}, errNoFood
	}
	meal, err = tx.Schedule(ctx, MealFinished.New(r.Owner, MealPayload{PetID: id}, task.In(g.rules.Meal), task.Subject(r.subject())))
	if err != nil {
		return Pet{}, err
	}
	r.Food--
	return g.save(ctx, tx, r.startMeal(meal.ID, byHand), meal, eventFed)
}

// Speedup takes time off the meal that is going on.
func (g *Game) Speedup(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	seen, err := g.decide(ctx, tx, id, func(r row) bool { return r.SpeedupCards > 0 })
	if err != nil {
		return Pet{}, err
	}
	meal, err := tx.Shift(ctx, seen.mealID(), -g.rules.Speedup)
	if err != nil {
		return Pet{}, meanwhile(err)
	}
	r, err := g.lockAs(ctx, tx, seen)
	if err != nil {
		return Pet{}, err
	}
	r.SpeedupCards--
	return g.save(ctx, tx, r, meal, eventSpedUp)
}

// Autofeed arms a card: when the meal ends, the pet is fed once more. It changes no task, so the pet is locked first: the
// worker that ends the meal needs that lock too.
func (g *Game) Autofeed(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, err := g.tables.lock(ctx, tx, id)
	if err != nil {
		return Pet{}, err
	}
	meal, err := g.meal(ctx, tx, r)
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

// Cancel takes the meal back: the food returns, and so do the armed cards.
func (g *Game) Cancel(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	seen, err := g.decide(ctx, tx, id, func(row) bool { return true })
	if err != nil {
		return Pet{}, err
	}
	meal, err := tx.Cancel(ctx, seen.mealID())
	if err != nil {
		return Pet{}, meanwhile(err)
	}
	r, err := g.lockAs(ctx, tx, seen)
	if err != nil {
		return Pet{}, err
	}
	r.Food++
	r.AutofeedCards += r.AutofeedArmed
	r.AutofeedArmed = 0
	return g.save(ctx, tx, r.endMeal(), meal, eventCancelled)
}

// SpeedupOwner spends a card on each of the owner's eating pets that has one, and tells how many there were.
func (g *Game) SpeedupOwner(ctx context.Context, tx *schedule.Tx, owner string) (int, error) {
	pets, err := g.tables.fast(ctx, tx, owner)
	if err != nil {
		return 0, err
	}
	eats, err := g.onlyEating(ctx, tx, pets)
	if err != nil || len(eats) == 0 {
		return 0, err
	}
	moved := 0
	for len(eats) > 0 {
		n := min(len(eats), task.MaxPerCall)
		if err := g.speedUp(ctx, tx, eats[:n]); err != nil {
			return 0, err
		}
		moved, eats = moved+n, eats[n:]
	}
	return moved, nil
}

// onlyEating keeps the pets whose meal is going on.
func (g *Game) onlyEating(ctx context.Context, tx *schedule.Tx, pets []row) ([]row, error) {
	var eats []row
	for len(pets) > 0 {
		n := min(len(pets), task.MaxPerCall)
		ids := make([]task.ID, n)
		for i, r := range pets[:n] {
			ids[i] = r.mealID()
		}
		meals, err := tx.GetMany(ctx, ids)
		if err != nil {
			return nil, err
		}
		pending := make(map[task.ID]bool, len(meals))
		for _, m := range meals {
			pending[m.ID] = m.State == task.Pending
		}
		for _, r := range pets[:n] {
			if pending[r.mealID()] {
				eats = append(eats, r)
			}
		}
		pets = pets[n:]
	}
	return eats, nil
}

func (g *Game) speedUp(ctx context.Context, tx *schedule.Tx, seen []row) error {
	taskIDs, ids := make([]task.ID, len(seen)), make([]int64, len(seen))
	for i, r := range seen {
		taskIDs[i], ids[i] = r.mealID(), r.ID
	}
	meals, err := tx.ShiftMany(ctx, taskIDs, -g.rules.Speedup)
	if err != nil {
		return meanwhile(err)
	}
	locked, err := g.tables.lockAll(ctx, tx, ids)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	byID := make(map[task.ID]task.Task, len(meals))
	for _, m := range meals {
		byID[m.ID] = m
	}
	lines := make([]journalLine, len(locked))
	for i, r := range locked {
		meal, same := byID[r.mealID()]
		if !same || r.SpeedupCards < 1 {
			return errMoved
		}
		lines[i] = line(r, meal, eventSpedUp, now)
	}
	if err := g.tables.takeCards(ctx, tx, ids); err != nil {
		return err
	}
	return g.tables.journal(ctx, tx, lines...)
}

// decide reads a pet without a lock and answers by the rules; what it allows is looked at again under lock.
func (g *Game) decide(ctx context.Context, tx *schedule.Tx, id int64, hasCard func(row) bool) (row, error) {
	r, err := g.tables.read(ctx, tx, id)
	if err != nil {
		return row{}, err
	}
	meal, err := g.meal(ctx, tx, r)
	switch {
	case err != nil:
		return row{}, err
	case !eating(meal):
		again, err := g.tables.read(ctx, tx, id)
		if err == nil && again.mealID() != r.mealID() {
			err = errMoved // the next meal has begun between the two reads
		}
		return row{}, firstOf(err, errNotEating)
	case !hasCard(r):
		return row{}, errNoCard
	}
	return r, nil
}

// lockAs locks the pet and makes sure that its meal and cards are as they were seen.
func (g *Game) lockAs(ctx context.Context, tx *schedule.Tx, seen row) (row, error) {
	r, err := g.tables.lock(ctx, tx, seen.ID)
	if err != nil {
		return row{}, err
	}
	if r.mealID() != seen.mealID() || r.SpeedupCards != seen.SpeedupCards {
		return row{}, errMoved
	}
	return r, nil
}

// save writes the pet and its journal line, and shows the pet.
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

// meanwhile turns "the meal has ended since it was looked at" into another try.
func meanwhile(err error) error {
	if errors.Is(err, task.ErrFinished) || errors.Is(err, task.ErrNotFound) {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
