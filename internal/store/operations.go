package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operationColumns are the columns of duetime_operations; a transition or a page changes those that are changed.
var operationColumns = []column[task.Operation]{
	binaryID("id", func(o *task.Operation) *task.ID { return &o.ID }, 0),
	text("verb", func(o *task.Operation) *string { return (*string)(&o.Verb) }, 0),
	{
		name: "by_ms", into: func(o *task.Operation) any { return spanMs{&o.By} },
		value: func(o *task.Operation) any { return o.By.Milliseconds() },
	},
	text("to_queue", func(o *task.Operation) *string { return &o.To }, 0),
	{name: "filter", into: func(o *task.Operation) any { return filterJSON{o} }, value: filterText},
	number("rate", func(o *task.Operation) *int { return &o.Rate }, 0),
	number("matched", func(o *task.Operation) *int64 { return &o.Matched }, 0),
	number("state", func(o *task.Operation) *task.OperationState { return &o.State }, changed),
	binaryID("cursor_id", func(o *task.Operation) *task.ID { return &o.Cursor }, changed),
	number("looked", func(o *task.Operation) *int64 { return &o.Looked }, changed),
	number("changed", func(o *task.Operation) *int64 { return &o.Changed }, changed),
	number("ended", func(o *task.Operation) *int64 { return &o.Ended }, changed),
	number("left_alone", func(o *task.Operation) *int64 { return &o.Unchanged }, changed),
	{
		name: "actor", into: func(o *task.Operation) any { return &o.Actor },
		value: func(o *task.Operation) any { return transition.Cut(o.Actor, maxActor) },
	},
	text("error", func(o *task.Operation) *string { return &o.Error }, changed),
	moment("created_at", func(o *task.Operation) *time.Time { return &o.CreatedAt }, 0),
	moment("updated_at", func(o *task.Operation) *time.Time { return &o.UpdatedAt }, changed),
	ending("finished_at", func(o *task.Operation) *time.Time { return &o.FinishedAt }, changed),
}

var operationList = names(operationColumns)

// InsertOperation writes a new row; false if an operation has its id already.
func (s *Store) InsertOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) (made bool, err error) {
	args := appendValues(nil, operationColumns, &o)
	_, err = q.ExecContext(ctx, "INSERT INTO duetime_operations ("+operationList+") VALUES ("+marks(len(args))+")", args...)
	if Classify(err) == Duplicate {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("insert operation %s: %w", o.ID, err)
	}
	return true, nil
}

// SaveOperation writes the state and the progress of a row that the transaction has locked.
func (s *Store) SaveOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) error {
	var set []string
	var args []any
	for _, c := range operationColumns {
		if c.uses&changed != 0 {
			set, args = append(set, c.name+" = ?"), append(args, c.value(&o))
		}
	}
	text := "UPDATE duetime_operations SET " + strings.Join(set, ", ") + " WHERE id = ?"
	if _, err := q.ExecContext(ctx, text, append(args, o.ID[:])...); err != nil {
		return fmt.Errorf("save operation %s: %w", o.ID, err)
	}
	return nil
}

// Operation reads an operation without locking it; false if there is none. A nil q means a connection of the pool.
func (s *Store) Operation(ctx context.Context, q sqlx.QueryerContext, id task.ID) (task.Operation, bool, error) {
	return s.operation(ctx, s.handle(q), id, "")
}

// LockOperation is Operation, and locks the row until the transaction ends.
func (s *Store) LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error) {
	return s.operation(ctx, q, id, s.dialect.ForUpdate())
}

func (s *Store) operation(ctx context.Context, q sqlx.QueryerContext, id task.ID, lock string) (task.Operation, bool, error) {
	text := s.dialect.stateThen(operationList) + " FROM duetime_operations WHERE id = ?" + lock
	found, err := queryRows(ctx, q, operationColumns, text, []any{id[:]}, writable{})
	if err == nil && len(found) == 0 {
		return task.Operation{}, false, s.checkPrimary(ctx, q)
	}
	if err != nil {
		return task.Operation{}, false, fmt.Errorf("read operation %s: %w", id, err)
	}
	return found[0], true, nil
}

// Operations reads the newest limit operations, in any state, the newest first. An id may be its caller's, and says nothing
// about the time. All rows are sorted: operations are few, and purged some time after their end.
func (s *Store) Operations(ctx context.Context, limit int) ([]task.Operation, error) {
	text := "SELECT " + operationList + " FROM duetime_operations ORDER BY created_at DESC, id DESC LIMIT ?"
	found, err := queryRows(ctx, s.db, operationColumns, text, []any{limit})
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	return found, nil
}

// RunningOperations reads all running operations, the oldest first.
func (s *Store) RunningOperations(ctx context.Context) ([]task.Operation, error) {
	text := s.dialect.stateThen(operationList) + " FROM duetime_operations" + s.dialect.Force("duetime_operations_state") +
		" WHERE state = ? ORDER BY created_at, id"
	found, err := queryRows(ctx, s.db, operationColumns, text, []any{int64(task.OperationRunning)}, writable{})
	if err != nil {
		return nil, fmt.Errorf("read running operations: %w", err)
	}
	return found, nil
}

// PurgeOperations deletes up to limit operations that came to an end before the moment, and returns their number.
func (s *Store) PurgeOperations(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.purgeOver(ctx, "duetime_operations", before, limit, int64(task.OperationCancelled), int64(task.OperationDone))
}

type spanMs struct{ to *time.Duration }

func (d spanMs) Scan(src any) error {
	ms, err := toInt64(src)
	*d.to = time.Duration(ms) * time.Millisecond
	return err
}

// storedFilter is the column filter. Recurrences is false in a shift without Operation.Recurrences, and absent in all others, as in those
// of versions that moved tasks of recurrences always: such a version can't read the field, and refuses the operation. So it is with
// Limit, which versions before would exceed, and with Undoes, without which they would move other tasks.
type storedFilter struct {
	task.Filter

	Recurrences *bool `json:"recurrences,omitempty"`
	Limit       int   `json:"limit,omitempty"`

	Undoes task.ID `json:"undoes,omitzero"`
}

// A filter that this program can't read does not fail the statement: it is one that Check refuses. The verb is read before.
type filterJSON struct{ of *task.Operation }

func (d filterJSON) Scan(src any) error {
	var text string
	if err := (nullableText{&text}).Scan(src); err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields() // a later version's field, left out, would choose more tasks
	var read storedFilter
	if decoder.Decode(&read) != nil {
		read = storedFilter{}
	}
	d.of.Filter, d.of.Limit, d.of.Undoes = read.Filter, read.Limit, read.Undoes
	d.of.Recurrences = d.of.Verb == task.VerbShift && (read.Recurrences == nil || *read.Recurrences)
	return nil
}

func filterText(o *task.Operation) any {
	stored := storedFilter{Filter: o.Filter, Limit: o.Limit, Undoes: o.Undoes}
	if o.LeavesRecurrences() {
		stored.Recurrences = new(false)
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "{}" // a Filter has nothing that JSON can't hold but moments after the year 9999; Check refuses {}
	}
	return string(text)
}
