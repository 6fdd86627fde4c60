package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// A row of duetime_limits is changed by one statement that compares its version. So no worker that is frozen in between keeps a
// lock, for which all others would wait.

const limitColumns = "queue, rate, owner_rate, concurrency, version, leased_us, owed_us, holders, limited_at"

// Limits returns the shared state of all queues that have one. A row that can't be read is Damaged, and spoils no other queue's.
func (s *Store) Limits(ctx context.Context) (map[string]limit.State, error) { return s.limits(ctx, "") }

// Limit returns the shared state of a queue; its version is 0 if it has none yet. A damaged row is an error.
func (s *Store) Limit(ctx context.Context, queue string) (limit.State, error) {
	found, err := s.limits(ctx, " WHERE queue = ?", queue)
	st := found[queue]
	st.Queue = queue
	return st, cmp.Or(err, st.Damaged)
}

func (s *Store) limits(ctx context.Context, where string, args ...any) (map[string]limit.State, error) {
	found := map[string]limit.State{}
	var r limitRow
	err := forEach(ctx, s.db, "SELECT "+limitColumns+" FROM duetime_limits"+where, args, r.dest(), func() {
		st, err := r.state()
		if err != nil {
			st.Damaged = fmt.Errorf("read the limit of queue %s, whose row of duetime_limits is damaged: %w", r.queue, err)
		}
		found[st.Queue] = st
	})
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	return found, nil
}

// SaveLimit writes what the workers share, if the row is still of the state's version; else it returns false.
func (s *Store) SaveLimit(ctx context.Context, st limit.State) (bool, error) {
	holders, err := json.Marshal(st.Holders)
	if err != nil {
		return false, fmt.Errorf("encode holders: %w", err)
	}
	leased, owed, limited := usOrZero(st.Account.Leased), st.Account.Owed.Microseconds(), msOrZero(st.LimitedAt)
	var r sql.Result
	if st.Version == 0 {
		r, err = s.db.ExecContext(ctx, "INSERT INTO duetime_limits (queue, leased_us, owed_us, holders, limited_at) VALUES (?, ?, ?, ?, ?)"+
			s.dialect.ignoreTaken("queue"), st.Queue, leased, owed, string(holders), limited)
	} else {
		r, err = s.db.ExecContext(ctx, "UPDATE duetime_limits SET leased_us = ?, owed_us = ?, holders = ?, limited_at = ?, version = version + 1 "+
			"WHERE queue = ? AND version = ?", leased, owed, string(holders), limited, st.Queue, st.Version)
	}
	if err != nil {
		return false, fmt.Errorf("save the limit of queue %s: %w", st.Queue, err)
	}
	if st.Version == 0 {
		return s.allNew(r, 1)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// SetRate sets an operator's rate for a queue; nil: as configured. Slots that workers have leased already stay theirs.
func (s *Store) SetRate(ctx context.Context, q sqlx.ExtContext, queue string, rate *task.Rate) error {
	return s.setLimit(ctx, q, queue, "rate", rateOrNull(rate))
}

// SetOwnerRate is SetRate for the rate of each owner.
func (s *Store) SetOwnerRate(ctx context.Context, q sqlx.ExtContext, queue string, rate *task.Rate) error {
	return s.setLimit(ctx, q, queue, "owner_rate", rateOrNull(rate))
}

// SetConcurrency sets an operator's bound of transactions at once for a queue; nil: as configured.
func (s *Store) SetConcurrency(ctx context.Context, q sqlx.ExtContext, queue string, n *int) error {
	var value any
	if n != nil {
		value = *n
	}
	return s.setLimit(ctx, q, queue, "concurrency", value)
}

func (s *Store) setLimit(ctx context.Context, q sqlx.ExtContext, queue, column string, value any) error {
	_, err := q.ExecContext(ctx, "INSERT INTO duetime_limits (queue, holders) VALUES (?, '[]')"+s.dialect.ignoreTaken("queue"), queue)
	if err == nil {
		_, err = q.ExecContext(ctx, "UPDATE duetime_limits SET "+column+" = ?, version = version + 1 WHERE queue = ?", value, queue)
	}
	if err != nil {
		return fmt.Errorf("set the %s of queue %s: %w", column, queue, err)
	}
	return nil
}

// limitRow is a row of duetime_limits while it is scanned.
type limitRow struct {
	queue, holders                 string
	rate, ownerRate                sql.NullString
	concurrency                    sql.NullInt64
	version, leased, owed, limited int64
}

func (r *limitRow) dest() []any {
	return []any{&r.queue, &r.rate, &r.ownerRate, &r.concurrency, &r.version, &r.leased, &r.owed, &r.holders, &r.limited}
}

func (r *limitRow) state() (limit.State, error) {
	st := limit.State{Queue: r.queue, Version: r.version, LimitedAt: fromMs(r.limited)}
	st.Account = limit.Account{Leased: time.UnixMicro(r.leased).UTC(), Owed: time.Duration(r.owed) * time.Microsecond}
	var err error
	if st.Rate, err = rateOf(r.rate); err != nil {
		return st, err
	}
	if st.OwnerRate, err = rateOf(r.ownerRate); err != nil {
		return st, err
	}
	if r.concurrency.Valid {
		n := int(r.concurrency.Int64)
		st.Concurrency = &n
	}
	if err := json.Unmarshal([]byte(r.holders), &st.Holders); err != nil {
		return st, fmt.Errorf("decode holders: %w", err)
	}
	return st, nil
}

func rateOrNull(rate *task.Rate) any {
	if rate == nil {
		return nil
	}
	return rate.String()
}

// rateOf is an operator's rate; nil if there is none.
func rateOf(text sql.NullString) (*task.Rate, error) {
	if !text.Valid {
		return nil, nil //nolint:nilnil // nil is a value here.
	}
	rate := new(task.Rate)
	return rate, rate.UnmarshalText([]byte(text.String))
}

func usOrZero(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}
