package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// What a group's counts mean, and who may lock what in which order, says package group. The members of a group are found by a label.

const (
	groupColumns = "name, follower_id, follower, sealed, open_parts, done, dead, cancelled, note, created_at, ended_at, checked_at"
	partColumns  = "part, open, done, dead, cancelled"
)

// groupInto are the destinations of groupColumns.
func groupInto(g *group.Row) []any {
	return []any{
		&g.Name,
		idBytes{&g.FollowerID},
		&g.Follower,
		flag{&g.Sealed},
		whole[int]{&g.OpenParts},
		whole[int]{&g.Done},
		whole[int]{&g.Dead},
		whole[int]{&g.Cancelled},
		&g.Note,
		unixMs{&g.CreatedAt},
		endMs{&g.EndedAt},
		endMs{&g.CheckedAt},
	}
}

func partInto(p *group.Part) []any {
	return []any{whole[int]{&p.Number}, whole[int]{&p.Open}, whole[int]{&p.Done}, whole[int]{&p.Dead}, whole[int]{&p.Cancelled}}
}

// flag is a destination of a number that is not 0 for true.
type flag struct{ to *bool }

func (d flag) Scan(src any) error {
	n, err := toInt64(src)
	*d.to = n != 0
	return err
}

// InsertGroup writes a new group with its parts; true if there is one of its name already, which stays.
func (s *Store) InsertGroup(ctx context.Context, q sqlx.ExtContext, g group.Row) (taken bool, err error) {
	at := g.CreatedAt.UnixMilli()
	r, err := q.ExecContext(ctx, s.dialect.insertIgnore()+" INTO duetime_groups (name, follower_id, follower, created_at) VALUES (?, ?, ?, ?)",
		g.Name, g.FollowerID[:], string(g.Follower), at)
	var n int64
	if err == nil {
		n, err = r.RowsAffected()
	}
	if err != nil || n == 0 {
		return err == nil, wrapGroup(err, "insert", g.Name)
	}
	var args []any
	for part := range group.Parts {
		args = append(args, g.Name, part+1, at)
	}
	_, err = q.ExecContext(ctx, "INSERT INTO duetime_group_parts (name, part, updated_at) VALUES "+
		strings.Repeat(",(?,?,?)", group.Parts)[1:], args...)
	return false, wrapGroup(err, "insert", g.Name)
}

func wrapGroup(err error, verb, name string) error {
	if err != nil {
		return fmt.Errorf("%s group %s: %w", verb, name, err)
	}
	return nil
}

// GetGroup reads a group's row without locking it; false if there is none.
func (s *Store) GetGroup(ctx context.Context, q sqlx.QueryerContext, name string) (group.Row, bool, error) {
	return s.groupRow(ctx, q, name, "")
}

// LockGroup is GetGroup, and locks the row.
func (s *Store) LockGroup(ctx context.Context, q sqlx.QueryerContext, name string) (group.Row, bool, error) {
	return s.groupRow(ctx, q, name, s.dialect.ForUpdate())
}

func (s *Store) groupRow(ctx context.Context, q sqlx.QueryerContext, name, lock string) (g group.Row, found bool, err error) {
	err = forEach(ctx, q, s.dialect.stateThen(groupColumns)+" FROM duetime_groups WHERE name = ?"+lock, []any{name},
		append([]any{writable{}}, groupInto(&g)...), func() { found = true })
	if err == nil && !found {
		err = s.checkPrimary(ctx, q)
	}
	return g, found, wrapGroup(err, "read", name)
}

// SaveGroup writes what changes of a group's row.
func (s *Store) SaveGroup(ctx context.Context, q sqlx.ExtContext, g group.Row) error {
	var ended any
	if !g.EndedAt.IsZero() {
		ended = g.EndedAt.UnixMilli()
	}
	sealed := 0
	if g.Sealed {
		sealed = 1
	}
	_, err := q.ExecContext(ctx, "UPDATE duetime_groups SET sealed = ?, open_parts = ?, done = ?, dead = ?, cancelled = ?, note = ?,"+
		" ended_at = ?, checked_at = ? WHERE name = ?", sealed, g.OpenParts, g.Done, g.Dead, g.Cancelled, transition.Cut(g.Note, maxGroupNote),
		ended, msOrZero(g.CheckedAt), g.Name)
	return wrapGroup(err, "write", g.Name)
}

const maxGroupNote = 255 // bytes

// LockFreePart locks the first part, from a number on, that nobody else has locked and that has so many open members; false if there
// is none. READ COMMITTED gives back the locks of parts that have fewer.
func (s *Store) LockFreePart(ctx context.Context, q sqlx.QueryerContext, name string, from, open int) (p group.Part, found bool, err error) {
	err = forEach(ctx, q, "SELECT "+partColumns+" FROM duetime_group_parts"+s.dialect.Force("PRIMARY")+
		" WHERE name = ? AND part >= ? AND open >= ? ORDER BY part LIMIT 1"+s.dialect.skipLocked(), []any{name, from, open}, partInto(&p),
		func() { found = true })
	return p, found, wrapGroup(err, "lock a part of", name)
}

// LockParts locks a group's parts in their order.
func (s *Store) LockParts(ctx context.Context, q sqlx.QueryerContext, name string) ([]group.Part, error) {
	return s.parts(ctx, q, name, s.dialect.ForUpdate())
}

// Parts reads a group's parts without locking them.
func (s *Store) Parts(ctx context.Context, q sqlx.QueryerContext, name string) ([]group.Part, error) {
	return s.parts(ctx, q, name, "")
}

func (s *Store) parts(ctx context.Context, q sqlx.QueryerContext, name, lock string) (all []group.Part, err error) {
	var p group.Part
	err = forEach(ctx, q, "SELECT "+partColumns+" FROM duetime_group_parts"+s.dialect.Force("PRIMARY")+
		" WHERE name = ? ORDER BY part"+lock, []any{name}, partInto(&p), func() { all = append(all, p) })
	return all, wrapGroup(err, "read parts of", name)
}

// SaveParts writes locked parts.
func (s *Store) SaveParts(ctx context.Context, q sqlx.ExtContext, name string, parts []group.Part, now time.Time) error {
	if len(parts) == 0 {
		return nil
	}
	var args []any
	for _, p := range parts {
		args = append(args, name, p.Number, p.Open, p.Done, p.Dead, p.Cancelled, now.UnixMilli())
	}
	_, err := q.ExecContext(ctx, "INSERT INTO duetime_group_parts (name, "+partColumns+", updated_at) VALUES "+
		strings.Repeat(",(?,?,?,?,?,?,?)", len(parts))[1:]+
		s.dialect.overwrite("name, part", "open", "done", "dead", "cancelled", "updated_at"), args...)
	return wrapGroup(err, "write parts of", name)
}

// LeaveGroup makes tasks members of no group.
func (s *Store) LeaveGroup(ctx context.Context, q sqlx.ExtContext, ids []task.ID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := q.ExecContext(ctx, "UPDATE duetime_tasks SET group_name = NULL WHERE id IN ("+marks(len(ids))+")", idArgs(sorted(ids))...)
	if err != nil {
		return fmt.Errorf("take %d tasks out of their groups: %w", len(ids), err)
	}
	return nil
}

// Group reads a group with its counts as committed; false if there is none.
func (s *Store) Group(ctx context.Context, name string) (task.Group, bool, error) {
	all, err := s.groups(ctx, " WHERE name = ?", name)
	if err == nil && len(all) == 0 {
		err = s.checkPrimary(ctx, nil)
	}
	if err != nil || len(all) == 0 {
		return task.Group{}, false, wrapGroup(err, "read", name)
	}
	return all[0], true, nil
}

// Groups reads a page of groups by their names, those after this one; with open only those that have not ended.
func (s *Store) Groups(ctx context.Context, after string, open bool, limit int) ([]task.Group, error) {
	where := " WHERE name > ? ORDER BY name LIMIT ?"
	if open {
		where = " WHERE ended_at IS NULL AND name > ? ORDER BY name LIMIT ?"
	}
	all, err := s.groups(ctx, where, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return all, nil
}

// groups reads groups in one statement, so that their counts are of one moment.
func (s *Store) groups(ctx context.Context, where string, args ...any) (all []task.Group, err error) {
	var g group.Row
	var p group.Part
	text := "SELECT g.*, part, COALESCE(p.open, 0), COALESCE(p.done, 0), COALESCE(p.dead, 0), COALESCE(p.cancelled, 0) FROM (SELECT " +
		groupColumns + " FROM duetime_groups" + where + ") AS g LEFT JOIN duetime_group_parts AS p ON p.name = g.name ORDER BY g.name"
	into := append(groupInto(&g), append([]any{endMs{new(time.Time)}}, partInto(&p)[1:]...)...)
	err = forEach(ctx, s.db, text, args, into, func() {
		if n := len(all); n == 0 || all[n-1].Name != g.Name {
			f, _ := g.Then() // a group whose follower can't be read is shown all the same
			g.FollowerKind, g.FollowerOwner = f.Kind, f.Owner
			all = append(all, g.Group)
		}
		if g.EndedAt.IsZero() {
			of := &all[len(all)-1]
			of.Open, of.Done, of.Dead, of.Cancelled = of.Open+p.Open, of.Done+p.Done, of.Dead+p.Dead, of.Cancelled+p.Cancelled
		}
	})
	return all, err
}

// CountMembers reads a group's counts and counts the rows of a page of its members by their states, those behind this one, in
// one statement, so that both are of one moment, and without a lock. It returns where the next page begins; zero after the last.
func (s *Store) CountMembers(ctx context.Context, name string, after task.ID, limit int) (c group.Count, next task.ID, err error) {
	text := "SELECT " + s.dialect.state() + ", r.*, c.* FROM (SELECT COUNT(*) AS n, MAX(l.task_id) AS up_to, COALESCE(SUM(t.state = ?), 0) AS open," +
		" COALESCE(SUM(COALESCE(t.state, e.state) = ?), 0) AS done, COALESCE(SUM(t.state = ?), 0) AS dead," +
		" COALESCE(SUM(COALESCE(t.state, e.state) = ?), 0) AS cancelled" +
		" FROM (SELECT task_id FROM duetime_labels" + s.dialect.Force("PRIMARY") +
		" WHERE name = ? AND value = ? AND task_id > ? ORDER BY task_id LIMIT ?) AS l" +
		" LEFT JOIN duetime_tasks AS t" + s.dialect.Force("PRIMARY") + " ON t.id = l.task_id AND t.group_name = ?" +
		" LEFT JOIN duetime_ended AS e" + s.dialect.Force("duetime_ended_id") + " ON e.id = l.task_id AND e.group_name = ?) AS r," +
		" (SELECT COALESCE(SUM(p.open), 0) AS open, COALESCE(SUM(p.done), 0) AS done, COALESCE(SUM(p.dead), 0) AS dead," +
		" COALESCE(SUM(p.cancelled), 0) AS cancelled, COALESCE(SUM(p.updated_at), 0) AS written, MAX(g.checked_at) AS checked_at" +
		" FROM duetime_groups AS g" + s.dialect.LeftFirst() + "duetime_group_parts AS p WHERE g.name = ? AND p.name = g.name) AS c"
	args := []any{task.Pending, task.Done, task.Dead, task.Cancelled, protocol.GroupLabel, name, after[:], limit, name, name, name}
	var n int
	var last []byte
	into := slices.Concat([]any{writable{}, whole[int]{&n}, &last}, partInto(&c.Rows)[1:], partInto(&c.Counted)[1:],
		[]any{whole[int64]{&c.Written}, endMs{&c.CheckedAt}})
	if err = s.db.QueryRowxContext(ctx, text, args...).Scan(into...); err == nil && n == limit {
		next, err = protocol.IDFromBytes(last)
	}
	return c, next, wrapGroup(err, "count members of", name)
}

// MarkChecked notes that a group's counts were compared with its members' rows now.
func (s *Store) MarkChecked(ctx context.Context, name string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE duetime_groups SET checked_at = "+s.dialect.now()+" WHERE name = ?", name)
	return wrapGroup(err, "mark as checked", name)
}

// Unchecked reads, by name, groups after this one that have not ended, that have not changed since a moment, and that were not
// checked since another one.
func (s *Store) Unchecked(ctx context.Context, changed, checked time.Time, after string, limit int) (names []string, err error) {
	var name string
	err = forEach(ctx, s.db, "SELECT name FROM duetime_groups AS g WHERE ended_at IS NULL AND name > ? AND checked_at < ?"+
		" AND NOT EXISTS (SELECT 1 FROM duetime_group_parts AS p WHERE p.name = g.name AND p.updated_at >= ?) ORDER BY name LIMIT ?",
		[]any{after, checked.UnixMilli(), changed.UnixMilli(), limit}, []any{&name}, func() { names = append(names, name) })
	if err != nil {
		return nil, fmt.Errorf("find groups to check: %w", err)
	}
	return names, nil
}

// PurgeGroups deletes up to limit groups that ended before the moment and of whose members no row is left, and returns their number.
func (s *Store) PurgeGroups(ctx context.Context, before time.Time, limit int) (int, error) {
	names, err := s.oldGroups(ctx, before, limit)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	return len(names), s.deleteGroups(ctx, names, before)
}

func (s *Store) oldGroups(ctx context.Context, before time.Time, limit int) (names []any, err error) {
	var name string
	err = forEach(ctx, s.db, "SELECT name FROM duetime_groups AS g WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM duetime_labels AS l"+
		" WHERE l.name = ? AND l.value = g.name) ORDER BY ended_at, name LIMIT ?", []any{before.UnixMilli(), protocol.GroupLabel, limit},
		[]any{&name}, func() { names = append(names, name) })
	if err != nil {
		return nil, fmt.Errorf("find old groups: %w", err)
	}
	return names, nil
}

// deleteGroups deletes groups with their parts, which it locks first, as all others do: a DELETE of both reads a group's row
// before. The names were read before: another purge may have deleted a group since, and somebody may have made one of its name,
// which stays.
func (s *Store) deleteGroups(ctx context.Context, names []any, before time.Time) error {
	err := s.deleteGroupsIn(ctx, names, before)
	if err != nil {
		return fmt.Errorf("delete %d groups: %w", len(names), err)
	}
	return nil
}

func (s *Store) deleteGroupsIn(ctx context.Context, names []any, before time.Time) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	of := " IN (" + marks(len(names)) + ")"
	err = forEach(ctx, tx, "SELECT part FROM duetime_group_parts"+s.dialect.Force("PRIMARY")+" WHERE name"+of+" ORDER BY name, part"+
		s.dialect.ForUpdate(), names, []any{new(int)}, func() {})
	if err != nil {
		return err
	}
	texts := []string{"DELETE g, p FROM duetime_groups AS g" + s.dialect.Force("PRIMARY") + " LEFT JOIN duetime_group_parts AS p" +
		s.dialect.Force("PRIMARY") + " ON p.name = g.name WHERE g.name" + of + " AND g.ended_at < ?"}
	if s.dialect == SQLite { // its DELETE has one table; a group that has ended is read without its parts
		texts = []string{
			"DELETE FROM duetime_group_parts WHERE name" + of + " AND name IN (SELECT name FROM duetime_groups WHERE ended_at < ?)",
			"DELETE FROM duetime_groups WHERE name" + of + " AND ended_at < ?",
		}
	}
	for _, text := range texts {
		if _, err := tx.ExecContext(ctx, text, append(slices.Clone(names), before.UnixMilli())...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
