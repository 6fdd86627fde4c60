package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/transition"
)

// maxOldest bounds how many due rows one statement of Waiting counts.
const maxOldest = 20_000

// Waiting is what is due of a queue and a kind, and not done.
type Waiting struct {
	Queue, Kind string
	Due         int64 // tasks
	Late        int64 // of these, for longer than grace
	PutOff      int64 // of these, by a worker that does not know their kind
	Cut         bool  // Due and Late are lower bounds
	Oldest      time.Time
}

// putOff tells whether a worker has put a task off that does not know its kind. Statements make a number of the long text
// early: a temporary table of such texts would take 4 KiB a row on MariaDB.
const putOff = "(last_error LIKE '" + transition.Unhandled + "%' OR last_error LIKE '" + transition.Unknown + "%') AS put_off"

// Waiting reads what is due by queue and kind, and the database's time. It counts the 20,000 rows that are due for longest, from the floor
// (floor.go) on. If there are more, it counts again without the queues and kinds that crowd there, as those of a paused queue do, and so
// on: of crowds the numbers are lower bounds, and they hide nothing. The server has so long for that, at some 3 µs a row. If that is too
// short, whole is false: the 20,000 rows that became due last are counted instead, and queues and kinds without a row there may be missing.
func (s *Store) Waiting(ctx context.Context, grace, behind time.Duration) (all []Waiting, whole bool, now time.Time, err error) {
	due := waitingRows{grace: grace}
	if due.floor, err = s.floorMs(ctx); err != nil {
		return nil, false, time.Time{}, err
	}
	if err = s.db.QueryRowxContext(ctx, "SELECT "+s.dialect.now()).Scan(unixMs{&due.now}); err == nil {
		all, err = s.waiting(ctx, due, 0)
	}
	if err == nil {
		all, whole, err = s.behindCrowds(ctx, behind, due, all)
	}
	if err != nil {
		return nil, false, time.Time{}, fmt.Errorf("read what is due: %w", err)
	}
	slices.SortFunc(all, func(a, b Waiting) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind)) })
	return all, whole, due.now, nil
}

// Ahead reads what becomes due within a span from now on, by queue and kind: of more than 20,000 rows, those that are due first.
func (s *Store) Ahead(ctx context.Context, now time.Time, span time.Duration) ([]Waiting, error) {
	all, err := s.waiting(ctx, waitingRows{floor: now.UnixMilli() + 1, now: now.Add(span), grace: span}, 0)
	if err != nil {
		return nil, fmt.Errorf("read what becomes due: %w", err)
	}
	return all, nil
}

// behindCrowds reads on while a statement counts all the rows that it may.
func (s *Store) behindCrowds(ctx context.Context, limit time.Duration, due waitingRows, all []Waiting) (_ []Waiting, whole bool, err error) {
	if deadline, limited := ctx.Deadline(); limited { // what was read must not be lost
		limit = min(limit, time.Until(deadline)/2)
	}
	end := time.Now().Add(limit)
	late, cancel := context.WithDeadline(ctx, end.Add(limit/4)) // SQLite gives up no statement by itself
	defer cancel()
	for found := all; counted(found) >= maxOldest; all = slices.Concat(due.without, found) {
		due.without = append(due.without, crowds(found)...)
		left := time.Until(end)
		if left >= time.Millisecond { // a limit of 0 would be none
			found, err = s.waiting(late, due, left)
		}
		if left < time.Millisecond || tooLong(err) || late.Err() != nil && ctx.Err() == nil {
			return s.withNewest(ctx, due, all), false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return all, true, nil
}

// withNewest adds queues and kinds among what became due last, if that can be read.
func (s *Store) withNewest(ctx context.Context, due waitingRows, all []Waiting) []Waiting {
	due.without, due.order = nil, " DESC"
	newest, _ := s.waiting(ctx, due, 0)
	for _, w := range newest {
		if !slices.ContainsFunc(all, func(known Waiting) bool { return known.Queue == w.Queue && known.Kind == w.Kind }) {
			all = append(all, w)
		}
	}
	for i := range all {
		all[i].Cut = true
	}
	return all
}

// waitingRows are the rows that a statement counts.
type waitingRows struct {
	floor   int64
	now     time.Time
	grace   time.Duration
	order   string    // of their run times
	without []Waiting // queues and kinds
}

// waiting counts the first rows. The server gives up at the limit; 0 is the end of ctx.
func (s *Store) waiting(ctx context.Context, due waitingRows, limit time.Duration) (all []Waiting, err error) {
	begin := SelectUntil(ctx)
	if limit > 0 {
		begin = selectLimited(limit)
	}
	args := []any{due.now.Add(-due.grace).UnixMilli(), due.floor, due.now.UnixMilli()}
	for _, w := range due.without {
		args = append(args, w.Queue, w.Kind)
	}
	var w Waiting
	err = forEach(ctx, s.db, begin+"queue, kind, COUNT(*), SUM(run_at < ?), SUM(put_off), MIN(run_at) FROM (SELECT run_at, queue, kind, "+
		putOff+" FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+" WHERE state = 0 AND run_at >= ? AND run_at <= ?"+
		strings.Repeat(" AND NOT (queue = ? AND kind = ?)", len(due.without))+" ORDER BY run_at"+due.order+" LIMIT ?) AS some GROUP BY queue, kind",
		append(args, maxOldest), []any{&w.Queue, &w.Kind, &w.Due, &w.Late, &w.PutOff, unixMs{&w.Oldest}}, func() { all = append(all, w) })
	return all, err
}

func counted(all []Waiting) (n int64) {
	for _, w := range all {
		n += w.Due
	}
	return n
}

// crowds are those with at least half of their even share.
func crowds(all []Waiting) (some []Waiting) {
	for _, w := range all {
		if 2*w.Due*int64(len(all)) >= maxOldest {
			w.Cut = true
			some = append(some, w)
		}
	}
	return some
}
