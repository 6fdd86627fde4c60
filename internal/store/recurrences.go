package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Recurrence reads an owner's recurrence, in any state, without locking it; false if there is none.
func (s *Store) Recurrence(ctx context.Context, q sqlx.QueryerContext, owner, name string) (task.Recurrence, bool, error) {
	found, err := queryRows(ctx, q, recurrenceColumns, s.dialect.stateThen(recurrenceList)+" FROM duetime_recurrences WHERE owner = ? AND name = ?",
		[]any{owner, name}, writable{})
	if err == nil && len(found) == 0 {
		return task.Recurrence{}, false, s.checkPrimary(ctx, q)
	}
	if err != nil {
		return task.Recurrence{}, false, fmt.Errorf("read recurrence %s of owner %s: %w", name, owner, err)
	}
	return found[0], true, nil
}

// OwnerRecurrences reads the first limit of an owner's recurrences in the states active and paused, by name, without locking them.
func (s *Store) OwnerRecurrences(ctx context.Context, q sqlx.QueryerContext, owner string, limit int) ([]task.Recurrence, error) {
	found, err := queryRows(ctx, q, recurrenceColumns, s.dialect.stateThen(recurrenceList)+" FROM duetime_recurrences WHERE owner = ? AND state <= ? ORDER BY name LIMIT ?",
		[]any{owner, task.RecurrencePaused, limit}, writable{})
	if err == nil && len(found) == 0 {
		err = s.checkPrimary(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("list recurrences of owner %s: %w", owner, err)
	}
	return found, nil
}

// maxOwnerRead is how many pending rows of an owner are read to find ticks among them.
const maxOwnerRead = 10_000

// PendingTicks reads the ids of the pending tasks that some recurrences of an owner have made, without locking them.
func (s *Store) PendingTicks(ctx context.Context, q sqlx.QueryerContext, owner string, recurrences []task.ID) ([]task.ID, error) {
	made := make(map[task.ID]bool, len(recurrences))
	for _, id := range recurrences {
		made[id] = true
	}
	var ids []task.ID
	var t task.Task
	rows := 0
	// By the owner's pending rows first: recurrences that have ticked for long have many more rows that have ended.
	where, args := s.pendingOf(owner, "")
	err := forEach(ctx, q, "SELECT id, COALESCE(dedup_key, '')"+where+" LIMIT ?", append(args, maxOwnerRead), []any{idBytes{&t.ID}, &t.DedupKey}, func() {
		rows++
		if id, _, _ := t.Tick(); made[id] {
			ids = append(ids, t.ID)
		}
	})
	if err == nil && rows == maxOwnerRead {
		ids, err = s.pendingTicksByKey(ctx, q, owner, recurrences)
	}
	if err != nil {
		return nil, fmt.Errorf("read pending ticks of owner %s: %w", owner, err)
	}
	return ids, nil
}

// pendingTicksByKey is PendingTicks by the keys of ticks, of all kinds of the owner: a task may be of a kind that its recurrence had.
func (s *Store) pendingTicksByKey(ctx context.Context, q sqlx.QueryerContext, owner string, recurrences []task.ID) (ids []task.ID, err error) {
	const of = "owner = ? AND kind = ? AND dedup_key >= ? AND dedup_key < ?"
	from := " FROM duetime_tasks" + s.dialect.Force("duetime_tasks_dedup") + " WHERE "
	for kind := ""; ; {
		var next string
		err := forEach(ctx, q, "SELECT kind"+from+"owner = ? AND kind > ? ORDER BY kind LIMIT 1", []any{owner, kind}, []any{&next}, func() {})
		if err != nil || next == "" {
			return ids, err
		}
		kind = next
		for part := range slices.Chunk(recurrences, keysPerRead) {
			var args []any
			for _, id := range part {
				key := strings.TrimSuffix(transition.ExtraTask(task.Recurrence{ID: id}, time.UnixMilli(0)).DedupKey, ":0")
				args = append(args, owner, kind, key+":", key+";") // the character after the colon
			}
			var id task.ID
			err := forEach(ctx, q, "SELECT id"+from+"("+strings.Repeat(" OR "+of, len(part))[len(" OR "):]+") AND state = 0", args,
				[]any{idBytes{&id}}, func() { ids = append(ids, id) })
			if err != nil {
				return nil, err
			}
		}
	}
}

// ofTicks is the condition that the row of duetime_tasks is a recurrence's: its key is r<id>:<tick>, with 22 characters of id.
const ofTicks = "dedup_key >= 'r' AND dedup_key < 's'"

// RecurrenceFilter selects recurrences for an operator; zero fields select all.
type RecurrenceFilter struct {
	Owner     string
	Kind      string
	State     *task.RecurrenceState
	AfterName [2]string // only those after this owner and name
	Limit     int       // of the rows
}

// ListRecurrences reads the recurrences that the filter selects, by owner and name.
func (s *Store) ListRecurrences(ctx context.Context, f RecurrenceFilter) ([]task.Recurrence, error) {
	var c conditions
	c.add("(owner > ? OR owner = ? AND name > ?)", f.AfterName[0], f.AfterName[0], f.AfterName[1])
	c.addEqual(f.Owner, f.Kind, "", "")
	if f.State != nil {
		c.add("state = ?", int64(*f.State))
	}
	found, err := queryRows(ctx, s.db, recurrenceColumns, SelectUntil(ctx)+recurrenceList+" FROM duetime_recurrences"+
		s.dialect.Force("duetime_recurrences_name")+" WHERE "+c.text()+" ORDER BY owner, name LIMIT ?", append(c.args, f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list recurrences: %w", err)
	}
	return found, nil
}

// DueRecurrences reads a page of active recurrences whose newest task was to be due before the moment, or that have none, by
// (due_at, id), after the cursor; a zero cursor means from the first row. Fewer than limit rows mean that this was the last page.
func (s *Store) DueRecurrences(ctx context.Context, before time.Time, after protocol.Cursor, limit int) ([]task.Recurrence, error) {
	at := msOrZero(after.At)
	text := s.dialect.stateThen(recurrenceList) + " FROM duetime_recurrences" + s.dialect.Force("duetime_recurrences_due") +
		" WHERE state = 0 AND ((due_at = ? AND id > ?) OR (due_at > ? AND due_at < ?)) AND due_at < ? ORDER BY due_at, id LIMIT ?"
	args := []any{at, after.ID[:], at, before.UnixMilli(), before.UnixMilli(), limit}
	found, err := queryRows(ctx, s.db, recurrenceColumns, text, args, writable{})
	if err != nil {
		return nil, fmt.Errorf("read due recurrences: %w", err)
	}
	return found, nil
}

// GetRecurrences reads the rows of these ids in id order, without locking them. Its result lacks missing rows.
func (s *Store) GetRecurrences(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Recurrence, error) {
	return s.recurrencesByID(ctx, q, ids, "", "", nil)
}

// LeftBehind counts the active recurrences whose newest task should have been due for longer than this, and has ended for as
// long, or has no row.
func (s *Store) LeftBehind(ctx context.Context, longer time.Duration) (n int64, err error) {
	text := "SELECT COUNT(*) FROM duetime_recurrences AS r" + s.dialect.Force("duetime_recurrences_due") +
		" LEFT JOIN duetime_tasks AS t ON t.id = r.newest WHERE r.state = 0 AND r.due_at < " + s.dialect.now() + " - ?" +
		" AND (t.id IS NULL OR t.state <> 0 AND t.updated_at < " + s.dialect.now() + " - ?)"
	if err := s.db.QueryRowxContext(ctx, text, longer.Milliseconds(), longer.Milliseconds()).Scan(&n); err != nil {
		return 0, fmt.Errorf("count recurrences that were left behind: %w", err)
	}
	return n, nil
}

// LockRecurrences is GetRecurrences, and locks each row until the transaction ends.
func (s *Store) LockRecurrences(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Recurrence, error) {
	return s.recurrencesByID(ctx, q, ids, s.dialect.ForUpdate(), "", nil)
}

// ShareRecurrence keeps an owner's recurrence from being paused or stopped until the transaction ends. It locks the entry of the
// name, by a read that needs no more of the row: a worker keeps the row locked for as long as a handler runs.
func (s *Store) ShareRecurrence(ctx context.Context, q sqlx.ExtContext, owner, name string) error {
	return s.lockNames(ctx, q, owner, []string{name}, s.dialect.forShare())
}

// UnshareRecurrences waits for the transactions that share one of the owner's recurrences, and lets no other share it until
// this transaction ends.
func (s *Store) UnshareRecurrences(ctx context.Context, q sqlx.ExtContext, owner string, names []string) error {
	return s.lockNames(ctx, q, owner, names, s.dialect.ForUpdate())
}

func (s *Store) lockNames(ctx context.Context, q sqlx.QueryerContext, owner string, names []string, lock string) error {
	for part := range slices.Chunk(names, task.MaxPerCall) {
		args := []any{owner}
		for _, name := range part {
			args = append(args, name)
		}
		err := forEach(ctx, q, "SELECT id FROM duetime_recurrences"+s.dialect.Force("duetime_recurrences_name")+
			" WHERE owner = ? AND name IN ("+marks(len(part))+")"+lock, args, []any{idBytes{new(task.ID)}}, func() {})
		if err != nil {
			return fmt.Errorf("lock %d names of recurrences of owner %s: %w", len(names), owner, err)
		}
	}
	return nil
}

// LockFreeRecurrences is LockRecurrences for the rows whose newest task is one of these, and that no other transaction has
// locked: it waits for none. At READ COMMITTED the server keeps no lock on the others, but for a row that it reads as a constant,
// because it is the only one: so a second id, which no row has, is asked for too.
func (s *Store) LockFreeRecurrences(ctx context.Context, q sqlx.ExtContext, ids, newest []task.ID) ([]task.Recurrence, error) {
	return s.recurrencesByID(ctx, q, append(slices.Clone(ids), task.ID{}), s.dialect.skipLocked(), " AND newest IN ("+marks(len(newest))+")", idArgs(newest))
}

func (s *Store) recurrencesByID(ctx context.Context, q sqlx.QueryerContext, ids []task.ID, lock, where string, args []any) ([]task.Recurrence, error) {
	var all []task.Recurrence
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := queryRows(ctx, q, recurrenceColumns, s.dialect.stateThen(recurrenceList)+" FROM duetime_recurrences"+s.dialect.Force("PRIMARY")+
			" WHERE id IN ("+marks(len(part))+")"+where+" ORDER BY id"+lock, append(idArgs(part), args...), writable{})
		if err != nil {
			return nil, fmt.Errorf("read %d recurrences: %w", len(ids), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// InsertRecurrence writes a new row. It returns ErrConflict if the owner has one of this name: the transaction may be tried again.
func (s *Store) InsertRecurrence(ctx context.Context, q sqlx.ExtContext, r task.Recurrence) error {
	args := appendValues(nil, recurrenceColumns, &r)
	_, err := q.ExecContext(ctx, "INSERT INTO duetime_recurrences ("+recurrenceList+") VALUES ("+marks(len(args))+")", args...)
	if Classify(err) == Duplicate {
		err = &conflictError{0, 1}
	}
	if err != nil {
		return fmt.Errorf("insert recurrence %s of owner %s: %w", r.Name, r.Owner, err)
	}
	return nil
}

// DefineRecurrence writes all of a row that is as before. It returns the errors of SaveRecurrences.
func (s *Store) DefineRecurrence(ctx context.Context, q sqlx.ExtContext, before, after task.Recurrence) error {
	return s.saveRecurrences(ctx, q, []task.Recurrence{before}, []task.Recurrence{after}, recurrenceColumns[1:])
}

// SaveRecurrences writes the progress of rows that are as before, writeChunk of them in one statement. It returns ErrConflict if a
// row has changed since it was read; the caller must roll back then.
func (s *Store) SaveRecurrences(ctx context.Context, q sqlx.ExtContext, before, after []task.Recurrence) error {
	for len(after) > 0 {
		n := min(writeChunk, len(after))
		if err := s.saveRecurrences(ctx, q, before[:n], after[:n], recurrenceProgress); err != nil {
			return err
		}
		before, after = before[n:], after[n:]
	}
	return nil
}

// saveRecurrences writes columns of rows. The time of the last transition is a row's version: each write raises it.
func (s *Store) saveRecurrences(ctx context.Context, q sqlx.ExtContext, before, after []task.Recurrence, columns []column[task.Recurrence]) error {
	after = slices.Clone(after)
	ids, versions := make([]any, len(after)), make([]any, 0, 2*len(after))
	for i, was := range before {
		if !after[i].UpdatedAt.After(was.UpdatedAt) {
			after[i].UpdatedAt = was.UpdatedAt.Add(time.Millisecond)
		}
		ids[i] = was.ID[:]
		versions = append(versions, was.ID[:], was.UpdatedAt.UnixMilli())
	}
	var set []string
	var args []any
	for _, c := range columns {
		set, args = assign(c, set, args, after)
	}
	r, err := q.ExecContext(ctx, "UPDATE duetime_recurrences"+s.dialect.Force("PRIMARY")+" SET "+strings.Join(set, ", ")+
		" WHERE id IN ("+marks(len(ids))+") AND updated_at = CASE id"+strings.Repeat(" WHEN ? THEN ?", len(ids))+" END",
		slices.Concat(args, ids, versions)...)
	var got int64
	if err == nil {
		got, err = r.RowsAffected()
	}
	if err == nil && got != int64(len(after)) {
		err = &conflictError{got, int64(len(after))}
	}
	if err != nil {
		return fmt.Errorf("save %d recurrences, the first %s of owner %s: %w", len(after), after[0].Name, after[0].Owner, err)
	}
	return nil
}

// StopOver marks an owner's recurrences that are over as stopped, so that they are purged.
func (s *Store) StopOver(ctx context.Context, q sqlx.ExtContext, owner string, now time.Time) error {
	if _, err := q.ExecContext(ctx, "UPDATE duetime_recurrences"+s.dialect.Force("duetime_recurrences_name")+
		" SET state = ?, updated_at = CASE WHEN updated_at < ? THEN ? ELSE updated_at + 1 END WHERE owner = ? AND state = ?",
		task.RecurrenceStopped, now.UnixMilli(), now.UnixMilli(), owner, task.RecurrenceOver); err != nil {
		return fmt.Errorf("stop recurrences of owner %s that are over: %w", owner, err)
	}
	return nil
}

// PurgeRecurrences deletes up to limit rows that were stopped before the moment, and returns their number. A recurrence that is over
// stays: otherwise the same definition would begin it anew, and make what Policy.Count has bounded once more.
func (s *Store) PurgeRecurrences(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.purgeOver(ctx, "duetime_recurrences", before, limit, int64(task.RecurrenceStopped))
}
