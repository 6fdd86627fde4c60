package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// Names of operators' requests. Each request is a row, and the processes read the rows every second.
const (
	pauseRequest  = "pause:"  // before the queue; the row stays until the queue is resumed, or the pause has ended by itself
	queueRequest  = "queue:"  // before a queue that the configuration need not have; the row stays until the queue is retired
	unusedRequest = "unused:" // before a queue that the daemon has found unused; the row stays until the queue is used or forgotten
	resignRequest = "resign:" // before the election's name; the row stays forever, since later terms have higher epochs
)

// Paused returns the paused queues, each with the moment of its pause.
func (s *Store) Paused(ctx context.Context) (map[string]time.Time, error) {
	var name string
	var made int64
	paused := map[string]time.Time{}
	err := forEach(ctx, s.db, "SELECT name, made_at FROM duetime_requests WHERE "+s.dialect.standing(""), nil, []any{&name, &made}, func() {
		if queue, ok := strings.CutPrefix(name, pauseRequest); ok {
			paused[queue] = fromMs(made)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return paused, nil
}

// Pause asks the workers to run none of the queue's tasks, until a moment or, if it is zero, a resume; false if the queue was
// paused before, for as long.
func (s *Store) Pause(ctx context.Context, q sqlx.ExtContext, queue string, now, until time.Time) (bool, error) {
	name, end := pauseRequest+queue, msOrZero(until)
	r, err := q.ExecContext(ctx, "INSERT INTO duetime_requests (name, epoch, made_at, until_at) VALUES (?, 0, ?, ?)"+s.dialect.ignoreTaken("name"),
		name, now.UnixMilli(), end)
	if err == nil {
		if made, err := s.allNew(r, 1); made || err != nil {
			return made, err
		}
		r, err = q.ExecContext(ctx, "UPDATE duetime_requests SET made_at = CASE WHEN until_at > ? THEN made_at ELSE ? END, until_at = ?"+
			" WHERE name = ? AND until_at > 0 AND (? = 0 OR until_at < ?)", now.UnixMilli(), now.UnixMilli(), end, name, end, end)
	}
	if err != nil {
		return false, fmt.Errorf("pause queue %s: %w", queue, err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// PausedUntil reads when the pause of a queue ends by itself; the zero time if it does not. False: the queue is not paused.
func (s *Store) PausedUntil(ctx context.Context, q sqlx.QueryerContext, queue string) (until time.Time, paused bool, err error) {
	var ms int64
	err = forEach(ctx, q, "SELECT until_at FROM duetime_requests WHERE name = ? AND "+s.dialect.standing(""), []any{pauseRequest + queue}, []any{&ms},
		func() { until, paused = timeOrZero(ms), true })
	if err != nil {
		return until, false, fmt.Errorf("read the pause of queue %s: %w", queue, err)
	}
	return until, paused, nil
}

// Resume ends the pause of a queue; false if there was none.
func (s *Store) Resume(ctx context.Context, q sqlx.ExtContext, queue string) (bool, error) {
	r, err := q.ExecContext(ctx, "DELETE FROM duetime_requests WHERE name = ?", pauseRequest+queue)
	if err != nil {
		return false, fmt.Errorf("resume queue %s: %w", queue, err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// Resign asks the leader of this name to end its term, if its epoch is at most this one.
func (s *Store) Resign(ctx context.Context, q sqlx.ExtContext, name string, epoch int64, now time.Time) error {
	text := "INSERT INTO duetime_requests (name, epoch, made_at) VALUES (?, ?, ?)" + s.dialect.overwrite("name", "epoch", "made_at")
	if _, err := q.ExecContext(ctx, text, resignRequest+name, epoch, now.UnixMilli()); err != nil {
		return fmt.Errorf("ask the leader of %s to resign: %w", name, err)
	}
	return nil
}

// Resigned returns the epoch up to which terms of this name are asked to end; 0 if there is no request.
func (s *Store) Resigned(ctx context.Context, name string) (int64, error) {
	var epoch int64
	err := s.db.QueryRowxContext(ctx, "SELECT epoch FROM duetime_requests WHERE name = ?", resignRequest+name).Scan(&epoch)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read requests to %s: %w", name, err)
	}
	return epoch, nil
}
