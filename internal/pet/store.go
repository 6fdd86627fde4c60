package pet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
)

const petColumns = `id, owner, name, food, speedup_cards, autofeed_cards, autofeed_armed, meals_eaten, experience, meal_task_id, meal_source`

// journalLine is one line of the journal.
type journalLine struct {
	PetID   int64
	Owner   string
	Event   string
	TaskID  string
	Version int64
	DueAtMs int64
	AtMs    int64
}

// tables is the game's SQL.
type tables struct{}

// session is a transaction, of a service or of a handler.
type session interface {
	sqlx.QueryerContext
	DriverName() string
}

// forUpdate is the suffix of a SELECT that locks its rows: none on SQLite, where a transaction locks the whole database.
func forUpdate(q session) string {
	if q.DriverName() == "mysql" {
		return " FOR UPDATE"
	}
	return ""
}

func (s tables) insert(ctx context.Context, q sqlx.ExecerContext, r row) (int64, error) {
	res, err := q.ExecContext(ctx, `INSERT INTO pets (owner, name, food, speedup_cards, autofeed_cards) VALUES (?, ?, ?, ?, ?)`,
		r.Owner, r.Name, r.Food, r.SpeedupCards, r.AutofeedCards)
	if err != nil {
		return 0, fmt.Errorf("insert pet: %w", err)
	}
	return res.LastInsertId()
}

// read returns a pet without locking it; errNoPet when there is none.
func (s tables) read(ctx context.Context, q sqlx.QueryerContext, id int64) (row, error) {
	return s.one(ctx, q, id, "")
}

// lock returns a pet and locks it until the transaction ends.
func (s tables) lock(ctx context.Context, q session, id int64) (row, error) {
	return s.one(ctx, q, id, forUpdate(q))
}

func (s tables) one(ctx context.Context, q sqlx.QueryerContext, id int64, suffix string) (row, error) {
	var r row
	err := sqlx.GetContext(ctx, q, &r, `SELECT `+petColumns+` FROM pets WHERE id = ?`+suffix, id)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, errNoPet
	}
	if err != nil {
		return row{}, fmt.Errorf("read pet %d: %w", id, err)
	}
	return r, nil
}

// lockAll locks pets in id order; all transactions that lock several pets use this order.
func (s tables) lockAll(ctx context.Context, q session, ids []int64) ([]row, error) {
	query, args, err := sqlx.In(`SELECT `+petColumns+` FROM pets WHERE id IN (?) ORDER BY id`+forUpdate(q), ids)
	if err != nil {
		return nil, err
	}
	var rows []row
	if err := sqlx.SelectContext(ctx, q, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("lock %d pets: %w", len(ids), err)
	}
	return rows, nil
}

// fast returns, without locking, the owner's pets that have had a meal and have a speed-up card.
func (s tables) fast(ctx context.Context, q sqlx.QueryerContext, owner string) ([]row, error) {
	var rows []row
	err := sqlx.SelectContext(ctx, q, &rows, `SELECT `+petColumns+` FROM pets
WHERE owner = ? AND meal_task_id IS NOT NULL AND speedup_cards > 0 ORDER BY id`, owner)
	if err != nil {
		return nil, fmt.Errorf("read pets of %s: %w", owner, err)
	}
	return rows, nil
}

func (s tables) update(ctx context.Context, q sqlx.ExecerContext, r row) error {
	_, err := q.ExecContext(ctx, `UPDATE pets SET food = ?, speedup_cards = ?, autofeed_cards = ?, autofeed_armed = ?,
meal_task_id = ?, meal_source = ? WHERE id = ?`,
		r.Food, r.SpeedupCards, r.AutofeedCards, r.AutofeedArmed, r.MealTaskID, r.MealSource, r.ID)
	if err != nil {
		return fmt.Errorf("update pet %d: %w", r.ID, err)
	}
	return nil
}

// takeCards takes one speed-up card from each of the pets.
func (s tables) takeCards(ctx context.Context, q sqlx.ExecerContext, ids []int64) error {
	query, args, err := sqlx.In(`UPDATE pets SET speedup_cards = speedup_cards - 1 WHERE id IN (?)`, ids)
	if err != nil {
		return err
	}
	if _, err := q.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("take cards of %d pets: %w", len(ids), err)
	}
	return nil
}

// finish adds a meal's experience to pets, and ends their meal if it is one of these. A pet that was given another meal
// meanwhile keeps it. meal_source comes first because MySQL assigns from left to right.
func (s tables) finish(ctx context.Context, q sqlx.ExecerContext, ids []int64, meals []string) error {
	if len(ids) == 0 {
		return nil
	}
	query, args, err := sqlx.In(`UPDATE pets SET meals_eaten = meals_eaten + 1, experience = experience + ?,
meal_source = CASE WHEN meal_task_id IN (?) THEN NULL ELSE meal_source END,
meal_task_id = CASE WHEN meal_task_id IN (?) THEN NULL ELSE meal_task_id END WHERE id IN (?)`, experiencePerMeal, meals, meals, ids)
	if err != nil {
		return err
	}
	if _, err := q.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("finish meals of %d pets: %w", len(ids), err)
	}
	return nil
}

// finishAndFeed adds a meal's experience to pets, and starts the meal that an armed card pays for.
func (s tables) finishAndFeed(ctx context.Context, q sqlx.ExecerContext, next []row) error {
	if len(next) == 0 {
		return nil
	}
	var meals strings.Builder
	args := []any{experiencePerMeal, byCard}
	ids := make([]int64, len(next))
	for i, r := range next {
		meals.WriteString(" WHEN ? THEN ?")
		args = append(args, r.ID, *r.MealTaskID)
		ids[i] = r.ID
	}
	in, inArgs, err := sqlx.In(`(?)`, ids)
	if err != nil {
		return err
	}
	_, err = q.ExecContext(ctx, `UPDATE pets SET meals_eaten = meals_eaten + 1, experience = experience + ?, food = food - 1,
autofeed_armed = autofeed_armed - 1, meal_source = ?, meal_task_id = CASE id`+meals.String()+` END WHERE id IN `+in, append(args, inArgs...)...)
	if err != nil {
		return fmt.Errorf("finish meals and feed %d pets: %w", len(next), err)
	}
	return nil
}

func (s tables) journal(ctx context.Context, q sqlx.ExecerContext, lines ...journalLine) error {
	if len(lines) == 0 {
		return nil
	}
	args := make([]any, 0, 7*len(lines))
	for _, l := range lines {
		args = append(args, l.PetID, l.Owner, l.Event, l.TaskID, l.Version, l.DueAtMs, l.AtMs)
	}
	values := strings.Repeat(", (?, ?, ?, ?, ?, ?, ?)", len(lines))[2:]
	_, err := q.ExecContext(ctx, `INSERT INTO pet_journal (pet_id, owner, event, task_id, version, due_at_ms, at_ms) VALUES `+values, args...)
	if err != nil {
		return fmt.Errorf("journal %d lines: %w", len(lines), err)
	}
	return nil
}
