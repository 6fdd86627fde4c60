package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
)

// A queue that leaves the configuration leaves rows under its name: a limit, a pause without an end, handovers of its partitions. Nobody
// tells when the last process has dropped it. So the daemon marks queues that nobody uses, and forgets the rows of one whose mark has stood
// for long. The mark is a request, with the version that the limit had, so that no writer has to know of marks: a limit, a pause or a
// handover that was written since shows that the mark is wrong.

// leftQueue is what the rows under a queue's name say.
type leftQueue struct {
	limit   int64 // the version of its limit; 0: it has none
	written int64 // Unix ms: when its pause was made, or a worker left one of its partitions, whichever was later
	marked  int64 // Unix ms: since when it is marked as unused; 0: it is not
	then    int64 // the version of its limit when it was marked
}

// stale reports whether something was written since the mark.
func (q leftQueue) stale() bool { return q.limit != q.then || q.written > q.marked }

// PurgeQueues forgets limits, pauses without an end and handovers of queues that nobody has used since before, and returns the names. A
// queue is used if the caller or some living process has it configured, if it was added, and while QueueUses counts something. It marks
// queues that it finds unused now.
func (s *Store) PurgeQueues(ctx context.Context, configured []string, now, before time.Time) (forgotten []string, err error) {
	left, err := s.leftQueues(ctx)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	used, err := s.usedQueues(ctx)
	if err != nil {
		return nil, err
	}
	used = append(used, configured...)
	for name, q := range left {
		purged := false
		switch isUsed := slices.Contains(used, name); {
		case q.marked == 0 && !isUsed:
			err = s.markUnused(ctx, name, q.limit, now)
		case q.marked == 0:
		case isUsed || q.stale():
			_, err = s.unmark(ctx, s.db, name, q)
		case q.marked < before.UnixMilli():
			purged, err = s.purgeQueue(ctx, name, q)
		}
		if err != nil {
			return forgotten, fmt.Errorf("forget what is left of queue %s: %w", name, err)
		}
		if purged {
			forgotten = append(forgotten, name)
		}
	}
	return forgotten, nil
}

// leftQueues reads which queues have rows.
func (s *Store) leftQueues(ctx context.Context) (map[string]leftQueue, error) {
	left := map[string]leftQueue{}
	var name string
	var at, version int64
	err := forEach(ctx, s.db, "SELECT queue, 0, version FROM duetime_limits UNION ALL SELECT queue, MAX(left_at), 0 FROM duetime_handovers GROUP BY queue"+
		" UNION ALL SELECT name, made_at, epoch FROM duetime_requests WHERE name LIKE ? AND until_at = 0 OR name LIKE ?",
		[]any{pauseRequest + "%", unusedRequest + "%"}, []any{&name, &at, &version}, func() {
			queue, isMark := strings.CutPrefix(name, unusedRequest)
			queue = strings.TrimPrefix(queue, pauseRequest)
			q := left[queue]
			if isMark {
				q.marked, q.then = at, version
			} else {
				q.limit, q.written = max(q.limit, version), max(q.written, at)
			}
			left[queue] = q
		})
	if err != nil {
		return nil, fmt.Errorf("read which queues have rows: %w", err)
	}
	return left, nil
}

// usedQueues returns the queues that operators have added, those that the processes of the last hour have configured or run, and the
// witness's.
func (s *Store) usedQueues(ctx context.Context) ([]string, error) {
	used, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	processes, err := s.ListProcesses(ctx)
	for _, p := range processes {
		used = slices.Concat(used, p.Detail.Configured, p.Detail.Queues)
	}
	return append(used, protocol.WitnessQueue), err
}

func (s *Store) markUnused(ctx context.Context, queue string, limit int64, now time.Time) error {
	_, err := s.db.ExecContext(ctx, s.dialect.insertIgnore()+" INTO duetime_requests (name, epoch, made_at) VALUES (?, ?, ?)",
		unusedRequest+queue, limit, now.UnixMilli())
	return err
}

// unmark deletes a mark; false if it is another one by now.
func (s *Store) unmark(ctx context.Context, tx sqlx.ExecerContext, queue string, q leftQueue) (bool, error) {
	r, err := tx.ExecContext(ctx, s.dialect.deletePinned("duetime_requests")+" WHERE name = ? AND made_at = ?", unusedRequest+queue, q.marked)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// purgeQueue forgets the rows under a queue's name with its mark. It leaves all of them if something uses the queue, if another
// daemon was here since, or if the limit is another one by now.
func (s *Store) purgeQueue(ctx context.Context, queue string, q leftQueue) (purged bool, err error) {
	uses, err := s.QueueUses(ctx, s.db, queue)
	if err != nil {
		return false, err
	}
	if uses != (protocol.QueueUses{}) {
		_, err := s.unmark(ctx, s.db, queue, q)
		return false, err
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if stood, err := s.unmark(ctx, tx, queue, q); err != nil || !stood {
		return false, err
	}
	r, err := tx.ExecContext(ctx, s.dialect.deletePinned("duetime_limits")+" WHERE queue = ? AND version = ?", queue, q.limit)
	if err != nil {
		return false, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 && q.limit > 0 {
		return false, err
	}
	for _, forget := range []struct{ text, name string }{
		{s.dialect.deletePinned("duetime_requests") + " WHERE name = ? AND until_at = 0 AND made_at <= ?", pauseRequest + queue},
		{s.dialect.deletePinned("duetime_handovers") + " WHERE queue = ? AND left_at <= ?", queue},
	} {
		if _, err := tx.ExecContext(ctx, forget.text, forget.name, q.marked); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}
