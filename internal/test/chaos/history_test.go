package chaos_test

import (
	"context"
	"database/sql"
	"time"
)

// line is one of the game's journal.
type line struct {
	pet     string
	owner   string
	event   string
	task    string
	version int64
	due, at int64 // Unix ms on the database's clock; due is the promise
}

// stock is what a pet has.
type stock struct {
	food, speedups, autofeeds, armed, meals, experience int64
}

// row is a task's.
type row struct {
	state int // 0 pending, 1 done, 2 cancelled, 3 dead
	run   int64
}

// history is the journal, the pets and the tasks, as of one moment.
type history struct {
	now    int64 // Unix ms
	lines  []line
	stocks map[string]stock
	rows   map[string]row
}

const (
	pending = iota
	done
	revoked
	dead
)

// readHistory takes all in one snapshot, so that they must fit each other to the last line.
func readHistory(ctx context.Context, db *sql.DB) (history, error) {
	h := history{stocks: map[string]stock{}, rows: map[string]row{}}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return h, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, `SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`).Scan(&h.now); err != nil {
		return h, err
	}
	if h.lines, err = readLines(ctx, tx, 0); err != nil {
		return h, err
	}
	err = each(ctx, tx, func(scan scan) error {
		var id string
		var s stock
		err := scan(&id, &s.food, &s.speedups, &s.autofeeds, &s.armed, &s.meals, &s.experience)
		h.stocks[id] = s
		return err
	}, `SELECT id, food, speedup_cards, autofeed_cards, autofeed_armed, meals_eaten, experience FROM pets`)
	if err != nil {
		return h, err
	}
	return h, each(ctx, tx, func(scan scan) error {
		var id string
		var r row
		err := scan(&id, &r.state, &r.run)
		h.rows[id] = r
		return err
	}, `SELECT LOWER(INSERT(INSERT(INSERT(INSERT(HEX(id), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')), state, run_at
		FROM (SELECT id, state, run_at, kind FROM duetime_tasks UNION ALL SELECT id, state, run_at, kind FROM duetime_ended) AS rows_of_both
		WHERE kind = 'pet.meal_finished'`)
}

// readLines returns the journal's lines of at_ms and later, in order.
func readLines(ctx context.Context, db querier, at int64) ([]line, error) {
	var lines []line
	err := each(ctx, db, func(scan scan) error {
		var l line
		err := scan(&l.pet, &l.owner, &l.event, &l.task, &l.version, &l.due, &l.at)
		lines = append(lines, l)
		return err
	}, `SELECT pet_id, owner, event, task_id, version, due_at_ms, at_ms FROM pet_journal WHERE at_ms >= ? ORDER BY seq`, at)
	return lines, err
}

type (
	querier interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	scan = func(into ...any) error
)

// each runs a query and reads each row of its answer.
func each(ctx context.Context, db querier, read func(scan) error, query string, args ...any) error {
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for r.Next() {
		if err := read(r.Scan); err != nil {
			return err
		}
	}
	return r.Err()
}

// meal is what the journal tells of one task.
type meal struct {
	pet, owner      string
	hand            bool // fed by a call, not by an auto-feed card
	made, due, at   int64
	version         int64
	cancelled, over bool
}

// lag is how long after its time the meal's effect came: from its due time, or from when it was made if that is later.
func (m *meal) lag() time.Duration { return time.Duration(m.at-max(m.due, m.made)) * time.Millisecond }

// ate reports whether the effect came.
func (m *meal) ate() bool { return m.over && !m.cancelled }
