package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	keysPerRead = 200 // conditions joined by OR in one statement
	maxKeyMoves = 10  // of keys between reads of them
)

// rowSet are rows by their ids and keys.
type rowSet struct {
	byID  map[task.ID]task.Task
	byKey map[dedupKey]task.Task
}

type dedupKey struct{ owner, kind, key string }

func keyOf(t task.Task) dedupKey { return dedupKey{t.Owner, t.Kind, t.DedupKey} }

func (s *rowSet) add(rows []task.Task) {
	if s.byID == nil {
		s.byID, s.byKey = map[task.ID]task.Task{}, map[dedupKey]task.Task{}
	}
	for _, row := range rows {
		s.byID[row.ID] = row
		if row.DedupKey != "" {
			s.byKey[keyOf(row)] = row
		}
	}
}

// row returns the row that has the task's id, or else its key.
func (s *rowSet) row(t task.Task) (task.Task, bool) {
	row, found := s.byID[t.ID]
	if !found && t.DedupKey != "" {
		row, found = s.byKey[keyOf(t)]
	}
	return row, found
}

// addMissing adds those of the tasks of which it has neither the id nor the key, and returns them.
func (s *rowSet) addMissing(tasks []task.Task) (missing []task.Task) {
	for _, t := range tasks {
		if _, found := s.row(t); !found {
			missing = append(missing, t)
			s.add([]task.Task{t})
		}
	}
	return missing
}

// of returns for each task the row that has its id or its key.
func (s *rowSet) of(tasks []task.Task) []task.Task {
	rows := make([]task.Task, len(tasks))
	for i, t := range tasks {
		rows[i], _ = s.row(t)
	}
	return rows
}

// lockExisting locks the rows that have the ids or the keys of tasks. The index of keys is read without locks, since a worker locks a
// row first, and frees its key when the task has ended: who held the key while it waits for the row would end in a deadlock with the
// worker, and a handler's work would be lost. So a key that was read is compared once more when its row is locked.
func (s *Store) lockExisting(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) (rowSet, error) {
	var asked rowSet
	asked.add(tasks)
	isOther := func(row task.Task) bool { _, found := asked.row(row); return !found }
	for range maxKeyMoves {
		var stands rowSet
		found, err := s.existingIDs(ctx, q, tasks)
		if err != nil || len(found) == 0 {
			return stands, err
		}
		locked, err := s.byID(ctx, q, found, s.dialect.ForUpdate())
		if err != nil {
			return stands, fmt.Errorf("lock %d tasks by key: %w", len(found), err)
		}
		stands.add(locked)
		if len(locked) == len(found) && !slices.ContainsFunc(locked, isOther) {
			return stands, nil
		}
	}
	return rowSet{}, fmt.Errorf("lock the tasks that have the keys: %w", &conflictError{0, int64(len(tasks))})
}

// KeyHolders reads the ids, the kinds and the keys of the rows that have the keys of tasks. With share nobody may insert, end or change the
// key of such a row until the transaction ends, and it waits for those who have done so and not committed yet: it locks entries
// of the index, and no rows, for which it would wait as long as their handlers run.
func (s *Store) KeyHolders(ctx context.Context, q sqlx.QueryerContext, tasks []task.Task, share bool) (holders []task.Task, err error) {
	lock := ""
	if share {
		lock = s.dialect.forShare()
	}
	var t task.Task
	for part := range slices.Chunk(tasks, keysPerRead) {
		keys, args := keyConditions(part)
		err := forEach(ctx, q, "SELECT id, owner, kind, dedup_key FROM duetime_tasks"+s.dialect.Force("duetime_tasks_dedup")+" WHERE "+keys+lock, args,
			[]any{idBytes{&t.ID}, &t.Owner, &t.Kind, &t.DedupKey}, func() { holders = append(holders, t) })
		if err != nil {
			return nil, fmt.Errorf("read who has %d keys: %w", len(tasks), err)
		}
	}
	return holders, nil
}

// keyConditions is the condition that a row has the key of one of the tasks; empty if none of them has one.
func keyConditions(tasks []task.Task) (text string, args []any) {
	for _, t := range tasks {
		if t.DedupKey != "" {
			text += " OR (owner = ? AND kind = ? AND dedup_key = ?)"
			args = append(args, t.Owner, t.Kind, t.DedupKey)
		}
	}
	return strings.TrimPrefix(text, " OR "), args
}

// existingIDs returns the ids of the rows that have the ids or keys of tasks.
func (s *Store) existingIDs(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) (ids []task.ID, err error) {
	var id task.ID
	for part := range slices.Chunk(tasks, keysPerRead) {
		keys, args := keyConditions(part)
		text := "SELECT id FROM duetime_tasks" + s.dialect.Force("PRIMARY") + " WHERE id IN (" + marks(len(part)) + ")"
		if keys != "" {
			text = "SELECT id FROM duetime_tasks" + s.dialect.Force("duetime_tasks_dedup") + " WHERE " + keys + " UNION " + text
		}
		err := forEach(ctx, q, text, append(args, idArgs(protocol.IDs(part))...), []any{idBytes{&id}}, func() { ids = append(ids, id) })
		if err != nil {
			return nil, fmt.Errorf("read which of %d tasks exist: %w", len(tasks), err)
		}
	}
	return sorted(ids), nil
}
