package pet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Handlers makes the mux of the game's worker.
func (g *Game) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.HandleBatch(mux, MealFinished, g.finishMeals)
	worker.Handle(mux, Mealtime, g.feedAtMealtime)
	return mux
}

// finishMeals ends many meals with one statement for each step. A call has each pet at most once, because the pet is the
// task's subject.
func (g *Game) finishMeals(ctx context.Context, tx *worker.Tx, meals []worker.Task[MealPayload]) error {
	byPet := make(map[int64]task.Task, len(meals))
	for _, m := range meals {
		byPet[m.Payload.PetID] = m.Task
	}
	pets, err := g.tables.lockAll(ctx, tx, slices.Sorted(maps.Keys(byPet)))
	if err != nil {
		return err
	}
	if len(pets) < len(meals) {
		return unfinished(len(meals), len(pets))
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	e := g.end(pets, byPet, now)
	if err := g.tables.finish(ctx, tx, e.pets, e.meals); err != nil {
		return err
	}
	next, err := tx.ScheduleMany(ctx, e.specs)
	if err != nil {
		return err
	}
	for i, t := range next {
		e.lines = append(e.lines, line(e.fed[i], t, eventAutoFed, now))
	}
	if err := g.tables.finishAndFeed(ctx, tx, e.fed); err != nil {
		return err
	}
	return g.tables.journal(ctx, tx, e.lines...)
}

// unfinished is the error for meals with missing pets. The worker halves the call until it has only the meal without a
// pet. That task dies, which an operator sees; it must not be done without an effect.
func unfinished(meals, pets int) error {
	err := fmt.Errorf("finish %d meals of %d pets: %w", meals, pets, errNoPet)
	if meals == 1 {
		return worker.Discard(err)
	}
	return err
}

// ends is what a call's meals write.
type ends struct {
	pets  []int64 // whose meal ends without another one
	meals []string
	fed   []row // that are fed again, as they will be after it
	specs []task.Spec
	lines []journalLine // of the ended meals
}

func (g *Game) end(pets []row, byPet map[int64]task.Task, now time.Time) (e ends) {
	for _, r := range pets {
		meal := byPet[r.ID]
		e.lines = append(e.lines, line(r, meal, eventFinished, now))
		if r.AutofeedArmed < 1 || r.Food < 1 || r.mealID() != meal.ID {
			e.pets, e.meals = append(e.pets, r.ID), append(e.meals, meal.ID.String())
			continue
		}
		// The next meal starts at the due time, not when the worker ran: an outage doesn't make the day shorter.
		spec := MealFinished.New(r.Owner, MealPayload{PetID: r.ID}, task.At(meal.DueAt.Add(g.rules().Meal)), task.Subject(r.subject()))
		e.specs = append(e.specs, spec)
		e.fed = append(e.fed, r.startMeal(spec.ID(), byCard))
	}
	return e
}
