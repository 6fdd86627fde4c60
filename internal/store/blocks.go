package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Block writes the row of a blocked owner; false if the owner was blocked before.
func (s *Store) Block(ctx context.Context, q sqlx.ExtContext, b task.BlockedOwner) (bool, error) {
	r, err := q.ExecContext(ctx, s.dialect.insertIgnore()+" INTO duetime_blocks (owner, at, actor) VALUES (?, ?, ?)",
		b.Owner, b.At.UnixMilli(), transition.Cut(b.Actor, maxActor))
	if err != nil {
		return false, fmt.Errorf("block owner %s: %w", b.Owner, err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// LockBlock locks the row of a blocked owner until the transaction ends; false if there is none.
func (s *Store) LockBlock(ctx context.Context, q sqlx.QueryerContext, owner string) (found bool, err error) {
	err = forEach(ctx, q, "SELECT at FROM duetime_blocks WHERE owner = ?"+s.dialect.ForUpdate(), []any{owner}, []any{new(int64)},
		func() { found = true })
	if err == nil && !found {
		err = s.checkPrimary(ctx, q)
	}
	if err != nil {
		return false, fmt.Errorf("lock the block of owner %s: %w", owner, err)
	}
	return found, nil
}

// Unblock deletes the row of a blocked owner.
func (s *Store) Unblock(ctx context.Context, q sqlx.ExtContext, owner string) error {
	if _, err := q.ExecContext(ctx, "DELETE FROM duetime_blocks WHERE owner = ?", owner); err != nil {
		return fmt.Errorf("unblock owner %s: %w", owner, err)
	}
	return nil
}

// NowAndBlocked is Now, and returns one of the owners that is blocked; empty if none is. It reads what is committed, and waits for
// nobody.
func (s *Store) NowAndBlocked(ctx context.Context, q sqlx.QueryerContext, owners []string) (time.Time, string, error) {
	var blocked sql.NullString
	now, err := s.nowAnd(ctx, q, ", (SELECT MIN(owner) FROM duetime_blocks WHERE owner IN ("+marks(len(owners))+"))", anys(owners), &blocked)
	if serverNumber(err) != 0 {
		if _, schema := s.Now(ctx, q); errors.Is(schema, ErrSchema) {
			err = schema // where the table is missing
		}
	}
	return now, blocked.String, err
}

// BlockedOwners reads a page of the blocked owners, by name, after this one.
func (s *Store) BlockedOwners(ctx context.Context, after string, limit int) ([]task.BlockedOwner, error) {
	return s.blocks(ctx, " WHERE owner > ? ORDER BY owner LIMIT ?", after, limit)
}

// BlockedOwner reads the row of a blocked owner; false if there is none.
func (s *Store) BlockedOwner(ctx context.Context, owner string) (b task.BlockedOwner, found bool, err error) {
	rows, err := s.blocks(ctx, " WHERE owner = ?", owner)
	if len(rows) == 0 {
		return b, false, err
	}
	return rows[0], true, nil
}

// LeftOfBlocked reads, by name, the owners after this one that were blocked at the moment or later, and have a pending task or a
// recurrence that goes on.
func (s *Store) LeftOfBlocked(ctx context.Context, since time.Time, after string, limit int) ([]string, error) {
	left, err := s.blocks(ctx, " WHERE at >= ? AND owner > ? AND (EXISTS (SELECT 1 FROM duetime_tasks AS t"+s.dialect.Force("duetime_tasks_owner")+
		" WHERE t.owner = duetime_blocks.owner AND t.state = 0) OR EXISTS (SELECT 1 FROM duetime_recurrences AS r"+
		" WHERE r.owner = duetime_blocks.owner AND r.state <= ?)) ORDER BY owner LIMIT ?",
		since.UnixMilli(), after, task.RecurrencePaused, limit)
	owners := make([]string, len(left))
	for i, b := range left {
		owners[i] = b.Owner
	}
	return owners, err
}

func (s *Store) blocks(ctx context.Context, where string, args ...any) ([]task.BlockedOwner, error) {
	var all []task.BlockedOwner
	var b task.BlockedOwner
	err := forEach(ctx, s.db, s.dialect.stateThen("owner, at, actor")+" FROM duetime_blocks"+where, args,
		[]any{writable{}, &b.Owner, unixMs{&b.At}, &b.Actor}, func() { all = append(all, b) })
	if err == nil && len(all) == 0 {
		err = s.checkPrimary(ctx, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("list blocked owners: %w", err)
	}
	return all, nil
}
