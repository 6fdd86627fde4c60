package pet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Findings are broken promises according to the journal.
type Findings struct {
	Lost      int64 // meals that began, have no end, and have no row that gives the reason
	Duplicate int64 // tasks with two effects
	Early     int64 // effects before their due time, on the database's clock
}

// Rows reads tasks by id; ids without a row are absent.
type Rows func(ctx context.Context, ids []task.ID) ([]task.Task, error)

// HasJournal reports whether this schema has the game's tables.
func HasJournal(ctx context.Context, db *sqlx.DB) (bool, error) {
	query := `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'pet_journal'`
	if db.DriverName() != "mysql" {
		query = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'pet_journal'`
	}
	var n int
	if err := db.GetContext(ctx, &n, query); err != nil {
		return false, fmt.Errorf("look for the journal: %w", err)
	}
	return n > 0, nil
}

// Audit reads the whole journal and compares it with the tasks. kept is the retention of ended tasks' rows: a meal
// without a row whose last line is older may have been cancelled or be dead, and does not count as lost.
func Audit(ctx context.Context, db *sqlx.DB, kept time.Duration, rows Rows) (Findings, error) {
	var f Findings
	err := db.GetContext(ctx, &f.Duplicate, `SELECT COUNT(*) FROM (SELECT task_id FROM pet_journal WHERE event = 'meal_finished'
GROUP BY task_id HAVING COUNT(*) > 1) AS twice`)
	if err != nil {
		return f, fmt.Errorf("count duplicates: %w", err)
	}
	if err := db.GetContext(ctx, &f.Early, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished' AND at_ms < due_at_ms`); err != nil {
		return f, fmt.Errorf("count early effects: %w", err)
	}
	f.Lost, err = lost(ctx, db, time.Now().Add(clockSlack-kept), rows)
	return f, err
}

// clockSlack is how far this machine's clock may be behind the database's.
const clockSlack = time.Minute

// lost counts meals without an end whose task has no row that is pending, cancelled or dead. A meal whose last line is
// from before purged counts only if its row says that it is done. A meal that ends during the first read is found by the
// second.
func lost(ctx context.Context, db *sqlx.DB, purged time.Time, rows Rows) (int64, error) {
	open, err := openMeals(ctx, db)
	if err != nil {
		return 0, err
	}
	suspects, err := withoutReason(ctx, rows, open, purged)
	if err != nil || len(suspects) == 0 {
		return 0, err
	}
	still, err := openMeals(ctx, db)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, m := range still {
		if suspects[m.TaskID] {
			n++
		}
	}
	return n, nil
}

// openMeal is a meal that began and has not ended.
type openMeal struct {
	TaskID string `db:"task_id"`
	LastMs int64  `db:"last_ms"` // when its last line was written
}

func openMeals(ctx context.Context, db *sqlx.DB) ([]openMeal, error) {
	var open []openMeal
	err := db.SelectContext(ctx, &open, `SELECT task_id, MAX(at_ms) AS last_ms FROM pet_journal GROUP BY task_id
HAVING SUM(CASE WHEN event IN ('fed', 'auto_fed', 'mealtime_fed') THEN 1 ELSE 0 END) > 0
   AND SUM(CASE WHEN event IN ('meal_finished', 'meal_cancelled') THEN 1 ELSE 0 END) = 0`)
	if err != nil {
		return nil, fmt.Errorf("read open meals: %w", err)
	}
	return open, nil
}

func withoutReason(ctx context.Context, rows Rows, open []openMeal, purged time.Time) (map[string]bool, error) {
	suspects := map[string]bool{}
	for chunk := range slices.Chunk(open, task.MaxPerCall) {
		states := map[string]task.State{}
		ids := make([]task.ID, 0, len(chunk))
		for _, m := range chunk {
			if id, err := task.ParseID(m.TaskID); err == nil {
				ids = append(ids, id)
			}
		}
		found, err := rows(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			states[t.ID.String()] = t.State
		}
		for _, m := range chunk {
			state, there := states[m.TaskID]
			if state == task.Done || !there && m.LastMs >= purged.UnixMilli() {
				suspects[m.TaskID] = true
			}
		}
	}
	return suspects, nil
}

// Firing is one effect: when it was due, when its task was made, when it happened.
type Firing struct {
	DueAt, MadeAt, At time.Time
}

// Lag is how long after its due time, or after the making of its task if that was later, the effect happened.
func (f Firing) Lag() time.Duration {
	from := f.DueAt
	if f.MadeAt.After(from) {
		from = f.MadeAt
	}
	return f.At.Sub(from)
}

// Firings reads all effects of the journal.
func Firings(ctx context.Context, db *sqlx.DB) ([]Firing, error) {
	var lines []struct {
		Due  int64 `db:"due_at_ms"`
		Made int64 `db:"made_ms"`
		At   int64 `db:"at_ms"`
	}
	err := db.SelectContext(ctx, &lines, `SELECT f.due_at_ms, f.at_ms, COALESCE(m.made_ms, f.due_at_ms) AS made_ms
FROM pet_journal f LEFT JOIN (SELECT task_id, MIN(at_ms) AS made_ms FROM pet_journal WHERE event IN ('fed', 'auto_fed', 'mealtime_fed') GROUP BY task_id) m
ON m.task_id = f.task_id WHERE f.event = 'meal_finished'`)
	if err != nil {
		return nil, fmt.Errorf("read firings: %w", err)
	}
	out := make([]Firing, len(lines))
	for i, l := range lines {
		out[i] = Firing{DueAt: time.UnixMilli(l.Due), MadeAt: time.UnixMilli(l.Made), At: time.UnixMilli(l.At)}
	}
	return out, nil
}

// EventCounts are numbers of the journal's lines.
type EventCounts struct {
	Finished, SpedUp, Cancelled, AutoFed int64
}

// Events counts the journal's lines.
func Events(ctx context.Context, db *sqlx.DB) (EventCounts, error) {
	var lines []struct {
		Event string `db:"event"`
		N     int64  `db:"n"`
	}
	if err := db.SelectContext(ctx, &lines, `SELECT event, COUNT(*) AS n FROM pet_journal GROUP BY event`); err != nil {
		return EventCounts{}, fmt.Errorf("count events: %w", err)
	}
	by := make(map[string]int64, len(lines))
	for _, l := range lines {
		by[l.Event] = l.N
	}
	return EventCounts{
		Finished: by[eventFinished], SpedUp: by[eventSpedUp], Cancelled: by[eventCancelled], AutoFed: by[eventAutoFed],
	}, nil
}
