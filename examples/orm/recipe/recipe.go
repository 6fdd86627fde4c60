// Package recipe has the code of docs/ORM.md for bun and ent: how their statements run in duetime's transactions, and how
// duetime joins theirs.
package recipe

import (
	"context"
	"database/sql"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/uptrace/bun"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Note is a row of the service's own.
type Note struct {
	bun.BaseModel `bun:"table:notes"`

	ID     int64 `bun:",pk"`
	Text   string
	EndsAt time.Time
}

// End is the payload of a task that removes a note.
type End struct {
	Note int64 `json:"note"`
}

// The kinds of tasks that remove a note, by bun and by ent.
var (
	NoteEnd  = task.NewKind[End]("note.end")
	NoteFade = task.NewKind[End]("note.fade")
)

// BunWrite writes the note and its end in a transaction of duetime's.
func BunWrite(ctx context.Context, db *bun.DB, tasks *schedule.Client, note Note) error {
	return tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, NoteEnd.New("ada", End{note.ID}, task.At(note.EndsAt))); err != nil {
			return err
		}
		_, err := db.NewInsert().Model(&note).Conn(tx).Exec(ctx)
		return err
	})
}

// BunJoin writes the note and its end in a transaction of bun's.
func BunJoin(ctx context.Context, db *bun.DB, tasks *schedule.Client, note Note) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	joined := tasks.Join(tx)
	if _, err := joined.Schedule(ctx, NoteEnd.New("ada", End{note.ID}, task.At(note.EndsAt))); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&note).Exec(ctx); err != nil {
		return err
	}
	return joined.Commit(ctx) // instead of tx.Commit
}

// BunHandler removes the note by bun.
func BunHandler(db *bun.DB) func(context.Context, *worker.Tx, worker.Task[End]) error {
	return func(ctx context.Context, tx *worker.Tx, t worker.Task[End]) error {
		_, err := db.NewDelete().Model((*Note)(nil)).Where("id = ?", t.Payload.Note).Conn(tx).Exec(ctx)
		return err
	}
}

// driver gives ent a transaction of duetime's. A service hands it to its generated client:
// ent.NewClient(ent.Driver(driver(tx))).
func driver(tx entsql.ExecQuerier) *entsql.Driver {
	return entsql.NewDriver(dialect.MySQL, entsql.Conn{ExecQuerier: tx})
}

// EntWrite writes the note and its end in a transaction of duetime's.
func EntWrite(ctx context.Context, tasks *schedule.Client, note Note) error {
	return tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, NoteFade.New("ada", End{note.ID}, task.At(note.EndsAt))); err != nil {
			return err
		}
		query, args := entsql.Dialect(dialect.MySQL).Insert("notes").Columns("id", "text", "ends_at").
			Values(note.ID, note.Text, note.EndsAt).Query()
		var result sql.Result
		return driver(tx).Exec(ctx, query, args, &result)
	})
}

// EntHandler removes the note by ent.
func EntHandler(ctx context.Context, tx *worker.Tx, t worker.Task[End]) error {
	query, args := entsql.Dialect(dialect.MySQL).Delete("notes").Where(entsql.EQ("id", t.Payload.Note)).Query()
	var result sql.Result
	return driver(tx).Exec(ctx, query, args, &result)
}
