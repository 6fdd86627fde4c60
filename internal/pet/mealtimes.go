package pet

import (
	"context"
	"errors"
	"net/http"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Mealtime is the kind of the task that feeds a pet at one of its mealtimes.
var Mealtime = task.NewKind[MealPayload]("pet.mealtime")

// errNoMealtimes refuses the end of mealtimes that were not set.
var errNoMealtimes = rule{"no_mealtimes", "the pet has no mealtimes"}

// Mealtimes are the times at which a pet is fed until its owner ends them, as the API shows them.
type Mealtimes struct {
	ID     string  `json:"id"` // of the pet
	Cron   string  `json:"cron"`
	Zone   string  `json:"zone"`
	NextMs []int64 `json:"next_ms"` // the next five
}

const mealtimesShown = 5

// mealtimesName names a pet's recurrence. An owner has one for each pet.
func mealtimesName(r row) string { return "mealtimes of pet " + r.subject() }

// SetMealtimes has the pet fed whenever the zone's clock fits the cron expression. It replaces earlier mealtimes.
func (g *Game) SetMealtimes(ctx context.Context, tx *schedule.Tx, id int64, cron, zone string) (Mealtimes, error) {
	r, err := g.tables.read(ctx, tx, id)
	if err != nil {
		return Mealtimes{}, err
	}
	spec := Mealtime.Recurring(r.Owner, MealPayload{PetID: id}, task.Subject(r.subject()))
	made, err := tx.Recur(ctx, mealtimesName(r), recur.Cron(cron, zone), spec, recur.Policy{})
	if err != nil {
		return Mealtimes{}, err
	}
	out := Mealtimes{ID: r.subject(), Cron: cron, Zone: zone, NextMs: []int64{made.DueAt.UnixMilli()}}
	for _, tick := range made.Coming(mealtimesShown - 1) {
		out.NextMs = append(out.NextMs, tick.UnixMilli())
	}
	return out, nil
}

// EndMealtimes ends the pet's mealtimes. A meal that is going on stays.
func (g *Game) EndMealtimes(ctx context.Context, tx *schedule.Tx, id int64) (Pet, error) {
	r, meal, err := g.look(ctx, tx, id)
	if err != nil {
		return Pet{}, err
	}
	_, err = tx.StopRecurrence(ctx, r.Owner, mealtimesName(r))
	if errors.Is(err, task.ErrNoRecurrence) {
		return Pet{}, errNoMealtimes
	}
	return r.view(meal), err
}

// feedAtMealtime starts a meal, unless the pet is eating or has no food.
func (g *Game) feedAtMealtime(ctx context.Context, tx *worker.Tx, t worker.Task[MealPayload]) error {
	r, err := g.tables.lock(ctx, tx, t.Payload.PetID)
	if errors.Is(err, errNoPet) {
		return worker.Discard(err)
	}
	if err != nil {
		return err
	}
	meal, err := g.meal(ctx, tx, r)
	if err != nil || eating(meal) || r.Food < 1 {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	meal, err = tx.Schedule(ctx, MealFinished.New(r.Owner, MealPayload{PetID: r.ID}, task.In(g.rules().Meal), task.Subject(r.subject())))
	if err != nil {
		return err
	}
	r.Food--
	r = r.startMeal(meal.ID, byMealtime)
	if err := g.tables.update(ctx, tx, r); err != nil {
		return err
	}
	return g.tables.journal(ctx, tx, line(r, meal, eventMealtime, now))
}

func (a *API) setMealtimes(r *http.Request, body []byte) (operation, error) {
	id, err := petID(r)
	if err != nil {
		return nil, err
	}
	var cron, zone string
	if err := decode(body, fields{"cron": &cron, "zone": &zone}); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *schedule.Tx) (answer, error) {
		m, err := a.game.SetMealtimes(ctx, tx, id, cron, zone)
		return answer{http.StatusOK, encode(m)}, err
	}, nil
}
