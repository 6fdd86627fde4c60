package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// # The floor of pending rows
//
// While somebody's transaction keeps a snapshot, InnoDB keeps the index entry of each task that ended since. A read that begins at the
// first pending row steps over all of them, at about a microsecond each, and no LIMIT bounds that. So looks begin at a floor: no row is
// pending before it, as far as this process knows.
//
//  1. The floor is the run time of the oldest pending row seen, at least floorMargin before the database's clock.
//  2. A row can come to stand below: a transaction was open for longer than the margin, another program inserts an old time, the clock was
//     set back, a backup was restored, a replica was promoted. So each second some of what is below the floor is read too, downwards from
//     the floor to the first row of all, and over again. A pending row that is found becomes the floor.
//  3. Without a long transaction one read takes all that is below: such a row is found within two seconds. Else a read takes a piece of
//     time, and the server ends it after belowTime: the next piece is shorter. These reads take a tenth of the time. They find each row
//     within two minutes while a few million ended tasks are kept, and later while there are more.
//  4. A read upwards from the floor that takes too long, because the oldest row was very old and ended, is given up: the floor begins anew
//     just below the clock, as in a new process.
type floor struct {
	now  atomic.Pointer[time.Time] // nil: not known yet
	mu   sync.Mutex                // of what follows
	read time.Time                 // when the last read began, on the local clock

	at      int64         // the floor, in Unix milliseconds
	below   int64         // what stands from here to the floor was read in this round; wholeTime: a round is to begin
	width   int64         // of the next piece, in milliseconds; wholeTime: all that is left
	limit   time.Duration // of the next piece
	atFirst time.Duration // limit of a read that was not given up yet; 0: belowTime
	tight   bool          // a piece of this round took too long
}

const (
	floorInterval = time.Second
	floorMargin   = 5 * time.Second // longer than most transactions take
	floorShare    = 10              // reads take at most this fraction of the time
	maxFloorTime  = 500 * time.Millisecond
	belowTime     = 100 * time.Millisecond // of one read
	wholeTime     = math.MinInt64          // another program's row may have any time
	firstPiece    = int64(time.Minute / time.Millisecond)
	minPiece      = int64(time.Second / time.Millisecond)
)

// Floor returns a moment before which no row is pending, as far as this process knows: a later read may begin there. Rows that
// come to stand below are found within two minutes, as a rule within two seconds (floor.go); then the floor is theirs. It is zero, the
// first row of all, if nothing is known yet, and on SQLite. It asks the server at most once a second.
func (s *Store) Floor(ctx context.Context) (time.Time, error) {
	f := &s.floor
	if s.dialect != SQLite && f.mu.TryLock() { // a call that reads already tells the others
		defer f.mu.Unlock()
		if err := f.refresh(ctx, s); err != nil {
			return time.Time{}, fmt.Errorf("find the first pending task: %w", err)
		}
	}
	if at := f.now.Load(); at != nil {
		return *at, nil
	}
	return time.Time{}, nil
}

// floorMs is Floor in Unix milliseconds.
func (s *Store) floorMs(ctx context.Context) (int64, error) {
	at, err := s.Floor(ctx)
	if err != nil || at.IsZero() {
		return wholeTime, err
	}
	return at.UnixMilli(), nil
}

func (f *floor) refresh(ctx context.Context, s *Store) error {
	since := time.Since(f.read)
	if since < floorInterval {
		return nil
	}
	began := time.Now()
	if err := f.raise(ctx, s); err != nil {
		return err
	}
	for budget := min(since/floorShare, maxFloorTime); ; {
		whole, err := f.readBelow(ctx, s)
		if err != nil {
			return err
		}
		if whole || time.Since(began) >= budget {
			break
		}
	}
	f.read = began
	at := fromMs(f.at)
	f.now.Store(&at)
	return nil
}

// raise moves the floor to the oldest pending row.
func (f *floor) raise(ctx context.Context, s *Store) error {
	from, known := f.at, f.now.Load() != nil
	if !known {
		from = math.MaxInt64 // only the clock
	}
	now, first, err := s.firstPending(ctx, from, math.MaxInt64, cmp.Or(f.atFirst, belowTime))
	if tooLong(err) {
		known = false
		now, first, err = s.firstPending(ctx, math.MaxInt64, math.MaxInt64, 0)
	}
	if err != nil {
		return err
	}
	f.at = now - floorMargin.Milliseconds()
	if first.Valid {
		f.at = min(f.at, first.Int64)
	}
	if !known {
		f.below = wholeTime
	}
	return nil
}

// readBelow reads the next piece below the floor, and reports whether it was the last.
func (f *floor) readBelow(ctx context.Context, s *Store) (whole bool, err error) {
	if f.below == wholeTime {
		f.below, f.width, f.limit = f.at, wholeTime, cmp.Or(f.atFirst, belowTime)
		if f.tight {
			f.width, f.tight = firstPiece, false
		}
	}
	from := int64(wholeTime)
	if f.width != wholeTime && f.below > 0 { // few rows are from before 1970
		from = f.below - f.width
	}
	_, first, err := s.firstPending(ctx, from, f.below, f.limit)
	switch {
	case tooLong(err) && f.width == minPiece: // many tasks were due at one moment
		f.limit *= 2
		return false, nil
	case tooLong(err):
		f.tight = true
		f.width = max(minPiece, f.width/2)
		if from == wholeTime {
			f.width = firstPiece
		}
		return false, nil
	case err != nil:
		return false, err
	case first.Valid:
		f.at = min(f.at, first.Int64)
	}
	f.below, f.limit = from, cmp.Or(f.atFirst, belowTime)
	f.width *= 2
	return from == wholeTime, nil
}

// firstPending returns the run time of the first pending row in [from, to), and the database's clock, both in Unix milliseconds. The
// server gives up at the limit, if there is one.
func (s *Store) firstPending(ctx context.Context, from, to int64, limit time.Duration) (now int64, first sql.NullInt64, err error) {
	err = s.db.QueryRowxContext(ctx, selectLimited(limit)+s.dialect.now()+", (SELECT run_at FROM duetime_tasks"+
		s.dialect.Force(byRunAt.index)+" WHERE "+byRunAt.where+"run_at >= ? AND run_at < ? ORDER BY run_at LIMIT 1)", from, to).Scan(&now, &first)
	return now, first, err
}

// tooLong reports whether the server gave a statement up because of its limit.
func tooLong(err error) bool {
	number := serverNumber(err)
	return number == timeLimitMariaDB || number == timeLimitMySQL
}
