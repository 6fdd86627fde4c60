package queue

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql" // the effects' database
)

// Mark is what one call of a handler left: when it began and when its effect had committed, in µs after the due time.
type Mark struct{ ID, Start, Done int64 }

// Effects is what handlers do, and the record of it.
type Effects struct {
	db *sql.DB // nil: handlers do nothing

	started, done, last atomic.Int64
	mu                  sync.Mutex
	marks               []Mark
}

// NewEffects makes handlers that do nothing, or, with a database, mark the job's row done and feed its pet in one
// transaction.
func NewEffects(db *sql.DB) *Effects { return &Effects{db: db} }

// Do runs one job's handler. Its error means that the effect did not commit.
func (e *Effects) Do(ctx context.Context, j Job) error {
	start := e.Start()
	if e.db != nil {
		if err := feed(ctx, e.db, j.ID); err != nil {
			return err
		}
	}
	e.Done(j, start)
	return nil
}

// Real reports whether an effect has to be written to the database.
func (e *Effects) Real() bool { return e.db != nil }

// DB is where effects are written; nil if they are not.
func (e *Effects) DB() *sql.DB { return e.db }

// Start notes that a handler begins.
func (e *Effects) Start() time.Time { e.started.Add(1); return time.Now() }

// Done notes that the effect of the job that began at start has committed.
func (e *Effects) Done(j Job, start time.Time) {
	now := time.Now().UnixMicro()
	e.mu.Lock()
	e.marks = append(e.marks, Mark{j.ID, start.UnixMicro() - j.Due, now - j.Due})
	e.mu.Unlock()
	e.done.Add(1)
	e.last.Store(now)
}

// Seen returns how many handlers began, how many effects committed, and when the last one did (Unix µs).
func (e *Effects) Seen() (started, done, last int64) {
	return e.started.Load(), e.done.Load(), e.last.Load()
}

// Marks returns the record so far.
func (e *Effects) Marks() []Mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Mark(nil), e.marks...)
}

// feed is the effect of systems whose handlers get one job each: what people write in such a handler.
func feed(ctx context.Context, db *sql.DB, id int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin effect of %d: %w", id, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, `UPDATE bench_tasks SET state = 1 WHERE id = ?`, id); err != nil {
		return fmt.Errorf("mark %d done: %w", id, err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE bench_pets SET meals = meals + 1 WHERE id = ?`, id); err != nil {
		return fmt.Errorf("feed pet %d: %w", id, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit effect of %d: %w", id, err)
	}
	return nil
}
