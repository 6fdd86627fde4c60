package pet

import (
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Handlers makes the mux of the game's worker.
func (g *Game) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.HandleBatch(mux, MealFinished, g.finishMeals)
	return mux
}

// finishMeals ends many meals with one statement for each step. A call has each pet at most once, because the pet is the
// task's subject.
func (g *Game) finishMeals(ctx context.Context, tx *worker.Tx, meals []worker.Task[MealPayload]) error {
	byPet := make(map[int64]task.Task, len(meals))
	ids := make([]int64, len(meals))
	for i, m := range meals {
		ids[i] = m.Payload.PetID
		byPet[m.Payload.PetID] = m.Task
	}
	slices.Sort(ids)
	pets, err := g.tables.lockAll(ctx, tx, ids)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	ended, fed, specs, lines := g.sortMeals(pets, byPet, now)
	if err := g.tables.finish(ctx, tx, ended); err != nil {
		return err
	}
	if len(specs) > 0 {
		next, err := tx.ScheduleMany(ctx, specs)
		if err != nil {
			return err
		}
		for i, t := range next {
			lines = append(lines, line(fed[i], t, eventAutoFed, now))
		}
	}
	if err := g.tables.finishAndFeed(ctx, tx, fed); err != nil {
		return err
	}
	return g.tables.journal(ctx, tx, lines...)
}

// sortMeals says which pets only end their meal and which are fed again, with the meals to schedule for the latter and
// the journal of the ended meals.
func (g *Game) sortMeals(pets []row, byPet map[int64]task.Task, now time.Time) (ended []int64, fed []row, specs []task.Spec, lines []journalLine) {
	for _, r := range pets {
		meal := byPet[r.ID]
		lines = append(lines, line(r, meal, eventFinished, now))
		if r.AutofeedArmed < 1 || r.Food < 1 || r.mealID() != meal.ID {
			ended = append(ended, r.ID)
			continue
		}
		// The next meal counts from the promise, not from when it was kept: an outage doesn't make the day shorter.
		spec := MealFinished.New(r.Owner, MealPayload{PetID: r.ID}, task.At(meal.DueAt.Add(g.rules.Meal)), task.Subject(r.subject()))
		specs = append(specs, spec)
		fed = append(fed, r.startMeal(spec.ID(), byCard))
	}
	return ended, fed, specs, lines
}
