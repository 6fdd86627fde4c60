package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// operationColumn is one column of duetime_operations.
type operationColumn struct {
	name     string
	progress bool // a transition or a page may change it
	into     func(*task.Operation) any
	value    func(*task.Operation) any
}

var operationColumns = []operationColumn{
	{"id", false, func(o *task.Operation) any { return idBytes{&o.ID} }, func(o *task.Operation) any { return o.ID[:] }},
	{
		"verb", false, func(o *task.Operation) any { return (*string)(&o.Verb) },
		func(o *task.Operation) any { return string(o.Verb) },
	},
	{
		"by_ms", false, func(o *task.Operation) any { return spanMs{&o.By} },
		func(o *task.Operation) any { return o.By.Milliseconds() },
	},
	{"to_queue", false, func(o *task.Operation) any { return &o.To }, func(o *task.Operation) any { return o.To }},
	{"filter", false, func(o *task.Operation) any { return filterJSON{o} }, filterText},
	{"rate", false, func(o *task.Operation) any { return &o.Rate }, func(o *task.Operation) any { return o.Rate }},
	{"matched", false, func(o *task.Operation) any { return &o.Matched }, func(o *task.Operation) any { return o.Matched }},
	{"state", true, func(o *task.Operation) any { return &o.State }, func(o *task.Operation) any { return int64(o.State) }},
	{
		"cursor_id", true, func(o *task.Operation) any { return idBytes{&o.Cursor} },
		func(o *task.Operation) any { return o.Cursor[:] },
	},
	{"looked", true, func(o *task.Operation) any { return &o.Looked }, func(o *task.Operation) any { return o.Looked }},
	{"changed", true, func(o *task.Operation) any { return &o.Changed }, func(o *task.Operation) any { return o.Changed }},
	{"ended", true, func(o *task.Operation) any { return &o.Ended }, func(o *task.Operation) any { return o.Ended }},
	{"left_alone", true, func(o *task.Operation) any { return &o.Unchanged }, func(o *task.Operation) any { return o.Unchanged }},
	{
		"actor", false, func(o *task.Operation) any { return &o.Actor },
		func(o *task.Operation) any { return cut(o.Actor, maxActor) },
	},
	{"error", true, func(o *task.Operation) any { return &o.Error }, func(o *task.Operation) any { return o.Error }},
	{
		"created_at", false, func(o *task.Operation) any { return unixMs{&o.CreatedAt} },
		func(o *task.Operation) any { return o.CreatedAt.UnixMilli() },
	},
	{
		"updated_at", true, func(o *task.Operation) any { return unixMs{&o.UpdatedAt} },
		func(o *task.Operation) any { return o.UpdatedAt.UnixMilli() },
	},
	{
		"finished_at", true, func(o *task.Operation) any { return endMs{&o.FinishedAt} },
		func(o *task.Operation) any { return msOrZero(o.FinishedAt) },
	},
}

var operationList = func() string {
	names := make([]string, len(operationColumns))
	for i, c := range operationColumns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}()

// InsertOperation writes a new row; false if an operation has its id already.
func (s *Store) InsertOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) (made bool, err error) {
	args := make([]any, len(operationColumns))
	for i, c := range operationColumns {
		args[i] = c.value(&o)
	}
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
		if c.progress {
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
	found, err := queryOperations(ctx, q, text, []any{id[:]}, writable{})
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
	found, err := queryOperations(ctx, s.db, text, []any{limit})
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	return found, nil
}

// RunningOperations reads all running operations, the oldest first.
func (s *Store) RunningOperations(ctx context.Context) ([]task.Operation, error) {
	text := s.dialect.stateThen(operationList) + " FROM duetime_operations" + s.dialect.force("duetime_operations_state") +
		" WHERE state = ? ORDER BY created_at, id"
	found, err := queryOperations(ctx, s.db, text, []any{int64(task.OperationRunning)}, writable{})
	if err != nil {
		return nil, fmt.Errorf("read running operations: %w", err)
	}
	return found, nil
}

// PurgeOperations deletes up to limit operations that came to an end before the moment, and returns their number.
func (s *Store) PurgeOperations(ctx context.Context, before time.Time, limit int) (int, error) {
	var ids []task.ID
	var id task.ID
	err := forEach(ctx, s.db, "SELECT id FROM duetime_operations WHERE state IN (?, ?) AND updated_at < ? LIMIT ?",
		[]any{int64(task.OperationCancelled), int64(task.OperationDone), before.UnixMilli(), limit}, []any{idBytes{&id}},
		func() { ids = append(ids, id) })
	if err != nil {
		return 0, fmt.Errorf("find old operations: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	// An operation that is over never changes again.
	_, err = s.db.ExecContext(ctx, "DELETE FROM duetime_operations WHERE id IN ("+marks(len(ids))+")", idArgs(ids)...)
	if err != nil {
		return 0, fmt.Errorf("delete %d operations: %w", len(ids), err)
	}
	return len(ids), nil
}

// queryOperations runs a SELECT of whole rows of duetime_operations.
func queryOperations(
	ctx context.Context, q sqlx.QueryerContext, text string, args []any, first ...any,
) ([]task.Operation, error) {
	var o task.Operation
	dest := append([]any{}, first...)
	for _, c := range operationColumns {
		dest = append(dest, c.into(&o))
	}
	var all []task.Operation
	err := forEach(ctx, q, text, args, dest, func() { all = append(all, o) })
	return all, err
}

type spanMs struct{ to *time.Duration }

func (d spanMs) Scan(src any) error {
	ms, err := toInt64(src)
	*d.to = time.Duration(ms) * time.Millisecond
	return err
}

// storedFilter is the column filter. Recurrences is false in a shift without Operation.Recurrences, and absent in all others, as in those
// of versions that moved tasks of recurrences always: such a version can't read the field, and refuses the operation.
type storedFilter struct {
	task.Filter

	Recurrences *bool `json:"recurrences,omitempty"`
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
	d.of.Filter = read.Filter
	d.of.Recurrences = d.of.Verb == task.VerbShift && (read.Recurrences == nil || *read.Recurrences)
	return nil
}

func filterText(o *task.Operation) any {
	stored := storedFilter{Filter: o.Filter}
	if o.LeavesRecurrences() {
		stored.Recurrences = new(false)
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "{}" // a Filter has nothing that JSON can't hold but moments after the year 9999; Check refuses {}
	}
	return string(text)
}
