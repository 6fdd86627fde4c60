package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pipelinetest"
)

// line is one of the game's journal.
type line struct {
	pet     int64
	owner   string
	event   string
	task    string
	version int64
	due, at time.Time
}

// stock is what a pet has.
type stock struct {
	food, speedups, autofeeds, armed, meals, experience int64
}

// history is the journal and the pets, as of one moment.
type history struct {
	lines  []line
	stocks map[int64]stock
}

// meal is what the journal tells of one task.
type meal struct {
	made, due, at time.Time // at: when its effect came; zero if it did not
	ended         bool
}

// read takes the journal and the pets in one snapshot, so that they must fit each other to the last line.
func (w *world) read(t *testing.T) history {
	t.Helper()
	tx, err := w.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	h := history{stocks: map[int64]stock{}}
	pipelinetest.Must(t, rows(t.Context(), tx, `SELECT pet_id, owner, event, task_id, version, due_at_ms, at_ms FROM pet_journal ORDER BY seq`,
		func(scan func(...any) error) error {
			var l line
			var due, at int64
			err := scan(&l.pet, &l.owner, &l.event, &l.task, &l.version, &due, &at)
			l.due, l.at = time.UnixMilli(due), time.UnixMilli(at)
			h.lines = append(h.lines, l)
			return err
		}))
	pipelinetest.Must(t, rows(t.Context(), tx, `SELECT id, food, speedup_cards, autofeed_cards, autofeed_armed, meals_eaten, experience FROM pets`,
		func(scan func(...any) error) error {
			var id int64
			var s stock
			err := scan(&id, &s.food, &s.speedups, &s.autofeeds, &s.armed, &s.meals, &s.experience)
			h.stocks[id] = s
			return err
		}))
	return h
}

func rows(ctx context.Context, tx *sql.Tx, query string, each func(scan func(...any) error) error) error {
	r, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for r.Next() {
		if err := each(r.Scan); err != nil {
			return err
		}
	}
	return r.Err()
}

// judge walks through the journal and returns the meals, and every way in which what happened is not what was promised.
func (h history) judge() (map[string]*meal, []string) {
	meals := map[string]*meal{}
	var wrong []string
	for _, l := range h.lines {
		m := meals[l.task]
		if l.event == "fed" || l.event == "auto_fed" {
			if m != nil {
				wrong = append(wrong, fmt.Sprintf("task %s: started twice", l.task))
			}
			meals[l.task] = &meal{made: l.at, due: l.due}
			continue
		}
		if m == nil {
			wrong = append(wrong, fmt.Sprintf("task %s: %s before its start", l.task, l.event))
			continue
		}
		if m.ended {
			wrong = append(wrong, fmt.Sprintf("task %s: %s after its end", l.task, l.event))
		}
		switch l.event {
		case "sped_up":
			m.due = l.due
		case "meal_cancelled":
			m.ended = true
		case "meal_finished":
			if !l.due.Equal(m.due) {
				wrong = append(wrong, fmt.Sprintf("task %s: took effect as due at %v, moved to %v before", l.task, l.due, m.due))
			}
			if l.at.Before(m.due) {
				wrong = append(wrong, fmt.Sprintf("task %s: early by %v", l.task, m.due.Sub(l.at)))
			}
			m.ended, m.at = true, l.at
		}
	}
	return meals, wrong
}

// balance compares each pet with its journal: an effect without its line, or a line without its effect, shows here.
func (h history) balance() []string {
	count := map[int64]map[string]int64{}
	for _, l := range h.lines {
		if count[l.pet] == nil {
			count[l.pet] = map[string]int64{}
		}
		count[l.pet][l.event]++
	}
	var wrong []string
	for id, s := range h.stocks {
		n := count[id]
		want := stock{
			food: 100 - n["fed"] - n["auto_fed"] + n["meal_cancelled"], speedups: 10 - n["sped_up"],
			autofeeds: 10 - n["auto_fed"] - s.armed, armed: s.armed, meals: n["meal_finished"], experience: 10 * n["meal_finished"],
		}
		if s != want {
			wrong = append(wrong, fmt.Sprintf("pet %d has %+v, by its journal %+v", id, s, want))
		}
	}
	return wrong
}

// promised compares the journal with what the players were answered: each acknowledged change stands in it, and nothing
// else does.
func (h history) promised(owners []*owner) []string {
	found, started := map[string]map[string]int{}, map[string]bool{}
	for _, l := range h.lines {
		if found[l.owner] == nil {
			found[l.owner] = map[string]int{}
		}
		found[l.owner][l.event]++
		started[l.task] = started[l.task] || l.event == "fed"
	}
	var wrong []string
	for _, o := range owners {
		for _, event := range []string{"fed", "sped_up", "autofeed_armed", "meal_cancelled"} {
			n, least := found[o.name][event], o.acked[event]
			if most := least + o.unknown[event]*len(o.pets); n < least || n > most {
				wrong = append(wrong, fmt.Sprintf("%s: %d %s in the journal, %d to %d acknowledged", o.name, n, event, least, most))
			}
		}
		for _, id := range o.fed {
			if !started[id] {
				wrong = append(wrong, fmt.Sprintf("%s: acknowledged task %s is not in the journal", o.name, id))
			}
		}
	}
	return wrong
}

// check holds everything that happened against what was promised, and returns the meals.
func (w *world) check(t *testing.T, c *crowd) map[string]*meal {
	t.Helper()
	h := w.read(t)
	meals, wrong := h.judge()
	wrong = slices.Concat(wrong, h.balance(), h.promised(c.owners), c.wrong)
	for _, what := range wrong[:min(len(wrong), 20)] {
		t.Error(what)
	}
	if len(wrong) > 20 {
		t.Errorf("and %d more", len(wrong)-20)
	}
	return meals
}

// lag is how long after its time the meal's effect came.
func (m *meal) lag() time.Duration {
	if m.made.After(m.due) {
		return m.at.Sub(m.made)
	}
	return m.at.Sub(m.due)
}

// window is a time in which a fault may make tasks late.
type window struct {
	name     string
	from, to time.Time
}

func (w window) has(at time.Time) bool { return !at.Before(w.from) && !at.After(w.to) }

// lags sorts the lags of all meals that were due outside of the windows.
func lags(meals map[string]*meal, windows ...window) []time.Duration {
	var all []time.Duration
	for _, m := range meals {
		if !m.at.IsZero() && !slices.ContainsFunc(windows, func(w window) bool { return w.has(m.due) }) {
			all = append(all, m.lag())
		}
	}
	slices.Sort(all)
	return all
}

// rank takes a percentile by nearest rank.
func rank(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}
