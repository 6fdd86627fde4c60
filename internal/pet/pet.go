package pet

import (
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// MealFinished is the kind of the task that ends a meal.
var MealFinished = task.NewKind[MealPayload]("pet.meal_finished")

// MealPayload names the pet whose meal ends.
type MealPayload struct {
	PetID int64 `json:"pet_id"`
}

// Sources of a meal.
const (
	byHand     = "hand"
	byCard     = "auto"
	byMealtime = "time"
)

// Events of the journal.
const (
	eventFed       = "fed"
	eventAutoFed   = "auto_fed"
	eventMealtime  = "mealtime_fed"
	eventSpedUp    = "sped_up"
	eventArmed     = "autofeed_armed"
	eventFinished  = "meal_finished"
	eventCancelled = "meal_cancelled"
)

const experiencePerMeal = 10

// Rules are the game's numbers.
type Rules struct {
	Meal          time.Duration // length of a meal
	Speedup       time.Duration // what one card takes off a meal
	Food          int           // of a new pet, like the cards below
	SpeedupCards  int
	AutofeedCards int
}

// Pet is a pet as the API shows it.
type Pet struct {
	ID            string `json:"id"`
	Owner         string `json:"owner"`
	Name          string `json:"name"`
	Food          int    `json:"food"`
	SpeedupCards  int    `json:"speedup_cards"`
	AutofeedCards int    `json:"autofeed_cards"`
	AutofeedArmed int    `json:"autofeed_armed"`
	MealsEaten    int64  `json:"meals_eaten"`
	Experience    int64  `json:"experience"`
	Meal          *Meal  `json:"meal"`
}

// Meal is the current meal.
type Meal struct {
	TaskID  task.ID `json:"task_id"`
	Source  string  `json:"source"`
	DueAtMs int64   `json:"due_at_ms"`
	Version int64   `json:"version"`
}

// row is a row of pets.
type row struct {
	ID            int64   `db:"id"`
	Owner         string  `db:"owner"`
	Name          string  `db:"name"`
	Food          int     `db:"food"`
	SpeedupCards  int     `db:"speedup_cards"`
	AutofeedCards int     `db:"autofeed_cards"`
	AutofeedArmed int     `db:"autofeed_armed"`
	MealsEaten    int64   `db:"meals_eaten"`
	Experience    int64   `db:"experience"`
	MealTaskID    *string `db:"meal_task_id"`
	MealSource    *string `db:"meal_source"`
}

// mealID returns the task of the pet's latest meal; zero when it has none.
func (r row) mealID() task.ID {
	if r.MealTaskID == nil {
		return task.ID{}
	}
	id, err := task.ParseID(*r.MealTaskID)
	if err != nil {
		return task.ID{}
	}
	return id
}

func (r row) startMeal(id task.ID, source string) row {
	text := id.String()
	r.MealTaskID, r.MealSource = &text, &source
	return r
}

func (r row) subject() string { return strconv.FormatInt(r.ID, 10) }

// view returns the pet as the API shows it. meal is the task of the current meal; any other task is not shown.
func (r row) view(meal task.Task) Pet {
	p := Pet{
		ID: r.subject(), Owner: r.Owner, Name: r.Name, Food: r.Food,
		SpeedupCards: r.SpeedupCards, AutofeedCards: r.AutofeedCards, AutofeedArmed: r.AutofeedArmed,
		MealsEaten: r.MealsEaten, Experience: r.Experience,
	}
	if eating(meal) && meal.ID == r.mealID() {
		p.Meal = &Meal{TaskID: meal.ID, DueAtMs: meal.DueAt.UnixMilli(), Version: meal.Version}
		if r.MealSource != nil {
			p.Meal.Source = *r.MealSource
		}
	}
	return p
}
