package pet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	defaultList = 24  // pets, and lines of the journal
	maxList     = 200 // the same
	recentLines = 5000
)

// list is the answer to GET /v1/pets.
type list struct {
	NowMs     int64 `json:"now_ms"` // of the database
	MealMs    int64 `json:"meal_ms"`
	SpeedupMs int64 `json:"speedup_ms"`
	Pets      []Pet `json:"pets"`
}

// List returns the newest pets, of an owner or of all if owner is empty.
func (g *Game) List(ctx context.Context, tx *schedule.Tx, owner string, limit int) ([]Pet, error) {
	rows, err := g.tables.newest(ctx, tx, owner, limit)
	if err != nil {
		return nil, err
	}
	var ids []task.ID
	for _, r := range rows {
		if id := r.mealID(); !id.IsZero() {
			ids = append(ids, id)
		}
	}
	var meals map[task.ID]task.Task
	if len(ids) > 0 {
		found, err := tx.GetMany(ctx, ids)
		if err != nil {
			return nil, err
		}
		meals = protocol.ByID(found)
	}
	pets := make([]Pet, len(rows))
	for i, r := range rows {
		pets[i] = r.view(meals[r.mealID()])
	}
	return pets, nil
}

// Line is a line of the journal as the API shows it.
type Line struct {
	PetID   string `json:"pet_id"`
	Name    string `json:"name"` // of the pet
	Owner   string `json:"owner"`
	Event   string `json:"event"`
	TaskID  string `json:"task_id"`
	Version int64  `json:"version"`
	DueAtMs int64  `json:"due_at_ms"`
	AtMs    int64  `json:"at_ms"`
}

// newest reads the newest pets without locking them.
func (s tables) newest(ctx context.Context, q sqlx.QueryerContext, owner string, limit int) ([]row, error) {
	where, args := "", []any{}
	if owner != "" {
		where, args = "WHERE owner = ? ", append(args, owner)
	}
	var rows []row
	err := sqlx.SelectContext(ctx, q, &rows, `SELECT `+petColumns+` FROM pets `+where+`ORDER BY id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("read the newest pets: %w", err)
	}
	return rows, nil
}

// lines reads the newest lines of the journal, of an owner or of all if owner is empty. The journal has no index by owner: an
// owner's lines are looked for among the newest ones of all.
func (s tables) lines(ctx context.Context, q sqlx.QueryerContext, owner string, limit int) ([]Line, error) {
	where, args := "", []any{recentLines}
	if owner != "" {
		where, args = "AND j.owner = ? ", append(args, owner)
	}
	var found []struct {
		journalLine

		Name string
	}
	err := sqlx.SelectContext(ctx, q, &found, `SELECT j.pet_id AS petid, p.name, j.owner, j.event, j.task_id AS taskid, j.version,
j.due_at_ms AS dueatms, j.at_ms AS atms FROM pet_journal j JOIN pets p ON p.id = j.pet_id
WHERE j.seq > (SELECT COALESCE(MAX(seq), 0) FROM pet_journal) - ? `+where+`ORDER BY j.seq DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	lines := make([]Line, len(found))
	for i, l := range found {
		lines[i] = Line{strconv.FormatInt(l.PetID, 10), l.Name, l.Owner, l.Event, l.TaskID, l.Version, l.DueAtMs, l.AtMs}
	}
	return lines, nil
}

// listed makes a handler of a list: of an owner with ?owner=, with up to ?limit= entries.
func (a *API) listed(read func(ctx context.Context, tx *schedule.Tx, owner string, limit int) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		owner := r.URL.Query().Get("owner")
		limit, wrong := pageLimit(r.URL.Query().Get("limit"), defaultList, maxList)
		if owner != "" {
			wrong = errors.Join(checkOwner(owner), wrong)
		}
		if wrong != nil {
			a.fail(w, r, wrong)
			return
		}
		a.read(w, r, func(ctx context.Context, tx *schedule.Tx) (answer, error) {
			out, err := read(ctx, tx, owner, limit)
			return answer{http.StatusOK, encode(out)}, err
		})
	}
}

func (a *API) pets(ctx context.Context, tx *schedule.Tx, owner string, limit int) (any, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	pets, err := a.game.List(ctx, tx, owner, limit)
	rules := a.game.rules()
	return list{now.UnixMilli(), rules.Meal.Milliseconds(), rules.Speedup.Milliseconds(), pets}, err
}

func (a *API) journal(ctx context.Context, tx *schedule.Tx, owner string, limit int) (any, error) {
	lines, err := a.game.tables.lines(ctx, tx, owner, limit)
	return struct {
		Lines []Line `json:"lines"`
	}{lines}, err
}
