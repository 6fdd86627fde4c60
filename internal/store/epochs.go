package store

import (
	"context"
	"fmt"
	"time"
)

// Take returns the next epoch of this name, which is greater than every epoch that any process got before. A call that
// fails may have used up an epoch.
func (s *Store) Take(ctx context.Context, name string) (int64, error) {
	return s.TakeAbove(ctx, name, 0)
}

// TakeAbove is Take for a caller that found an epoch stored elsewhere. Its result is greater than that epoch too, even
// after this database was restored from a backup.
func (s *Store) TakeAbove(ctx context.Context, name string, stored int64) (int64, error) {
	epoch, err := s.nextEpoch(ctx, name, stored)
	if err != nil {
		return 0, fmt.Errorf("take epoch of %s: %w", name, err)
	}
	return epoch, nil
}

func (s *Store) nextEpoch(ctx context.Context, name string, stored int64) (int64, error) {
	if s.dialect == SQLite {
		var epoch int64
		err := s.db.QueryRowxContext(ctx, "INSERT INTO duetime_epochs (name, epoch) VALUES (?, ? + 1) "+
			"ON CONFLICT (name) DO UPDATE SET epoch = MAX(epoch, ?) + 1 RETURNING epoch", name, stored, stored).Scan(&epoch)
		return epoch, err
	}
	r, err := s.db.ExecContext(ctx, "INSERT INTO duetime_epochs (name, epoch) VALUES (?, LAST_INSERT_ID(? + 1)) "+
		"ON DUPLICATE KEY UPDATE epoch = LAST_INSERT_ID(GREATEST(epoch, ?) + 1)", name, stored, stored)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// Current returns the newest epoch of this name; 0 if none was ever taken.
func (s *Store) Current(ctx context.Context, name string) (int64, error) {
	_, epoch, err := s.Moment(ctx, name)
	return epoch, err
}

// Moment returns the database's time, to the millisecond, and the newest epoch of this name. One statement reads both, on
// a server that may be written.
func (s *Store) Moment(ctx context.Context, name string) (now time.Time, epoch int64, err error) {
	var ms int64
	err = s.queryPrimary(ctx, nil, s.dialect.now()+", COALESCE((SELECT epoch FROM duetime_epochs WHERE name = ?), 0)", []any{name}, &ms, &epoch)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("read epoch of %s: %w", name, err)
	}
	return fromMs(ms), epoch, nil
}
