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

// Limits of one line of the history, and of one statement that writes lines.
const (
	maxActor     = 128  // bytes
	maxDetail    = 1024 // bytes
	historyChunk = 500
)

// Record appends lines to the history, up to historyChunk lines in one statement. A nil q means a connection of the pool.
// Texts that are too long are cut.
func (s *Store) Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error {
	if q == nil {
		q = s.db
	}
	for part := range slices.Chunk(events, historyChunk) {
		args := make([]any, 0, 5*len(part))
		for _, e := range part {
			var id any
			if !e.Task.IsZero() {
				id = e.Task[:]
			}
			args = append(args, e.At.UnixMilli(), id, e.Name, transition.Cut(e.Actor, maxActor), transition.Cut(e.Detail, maxDetail))
		}
		_, err := q.ExecContext(ctx, "INSERT INTO duetime_history (at, task, event, actor, detail) VALUES "+
			strings.Repeat(",(?,?,?,?,?)", len(part))[1:], args...)
		if err != nil {
			return fmt.Errorf("write %d lines of history: %w", len(events), err)
		}
	}
	return nil
}

// History reads the newest limit lines of a task's history, in the order in which they were written.
func (s *Store) History(ctx context.Context, id task.ID, limit int) ([]protocol.Event, error) {
	var events []protocol.Event
	var at int64
	e := protocol.Event{Task: id}
	err := forEach(ctx, s.db, "SELECT at, event, actor, detail FROM duetime_history WHERE task = ? ORDER BY seq DESC LIMIT ?", []any{id[:], limit},
		[]any{&at, &e.Name, &e.Actor, &e.Detail}, func() {
			e.At = fromMs(at)
			events = append(events, e)
		})
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", id, err)
	}
	slices.Reverse(events)
	return events, nil
}

// DegradedFor is how long a line of the history says that a worker is degraded: a little longer than until the next one.
const DegradedFor = 90 * time.Second

// Bounds of how many lines about no task are read.
const (
	maxSystemLines = 500  // for what holds now
	maxQueueLines  = 2000 // of the past
)

// systemLines reads the newest limit lines about no task, the newest first.
func (s *Store) systemLines(ctx context.Context, limit int) ([]protocol.Event, error) {
	var events []protocol.Event
	var at int64
	var e protocol.Event
	err := forEach(ctx, s.db, "SELECT at, event, actor, detail FROM duetime_history WHERE task IS NULL ORDER BY seq DESC LIMIT ?",
		[]any{limit}, []any{&at, &e.Name, &e.Actor, &e.Detail}, func() {
			e.At = fromMs(at)
			events = append(events, e)
		})
	return events, err
}

// Degraded returns for how many workers looks stand in for the hints of a queue, by queue.
func (s *Store) Degraded(ctx context.Context, now time.Time) (map[string]int, error) {
	lines, err := s.systemLines(ctx, maxSystemLines)
	if err != nil {
		return nil, fmt.Errorf("read which queues are degraded: %w", err)
	}
	workers, seen := map[string]int{}, map[string]bool{}
	for _, e := range lines {
		if e.Name != protocol.EventDegraded && e.Name != protocol.EventRecovered || seen[e.Actor+"\x00"+e.Detail] {
			continue
		}
		seen[e.Actor+"\x00"+e.Detail] = true
		if e.Name == protocol.EventDegraded && now.Sub(e.At) <= DegradedFor {
			workers[e.Detail]++
		}
	}
	return workers, nil
}

// ShardsChanged returns when a change of the number of shards last began or ended, by the newest lines of the history; zero if
// these don't say.
func (s *Store) ShardsChanged(ctx context.Context) (time.Time, error) {
	lines, err := s.systemLines(ctx, maxSystemLines)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when the shards changed: %w", err)
	}
	for _, e := range lines {
		if e.Name == protocol.EventShards {
			return e.At, nil
		}
	}
	return time.Time{}, nil
}

// QueueHistory reads what was written of a queue up to a moment, among the newest lines about no task, in the order of time.
func (s *Store) QueueHistory(ctx context.Context, queue string, to time.Time) ([]protocol.Event, error) {
	lines, err := s.systemLines(ctx, maxQueueLines)
	if err != nil {
		return nil, fmt.Errorf("read history of queue %s: %w", queue, err)
	}
	events := slices.DeleteFunc(lines, func(e protocol.Event) bool {
		name, _, _ := strings.Cut(e.Detail, " ") // a limit follows
		return name != queue || !e.OfQueue() || e.At.After(to)
	})
	slices.Reverse(events)
	slices.SortStableFunc(events, func(a, b protocol.Event) int { return a.At.Compare(b.At) })
	return events, nil
}

// PurgeHistory deletes up to limit lines from before the given moment, and returns their number. Fewer than limit mean
// that no such line is left.
func (s *Store) PurgeHistory(ctx context.Context, before time.Time, limit int) (int, error) {
	var seqs []any
	var seq int64
	err := forEach(ctx, s.db, "SELECT seq FROM duetime_history"+s.dialect.Force("duetime_history_at")+" WHERE at < ? ORDER BY at LIMIT ?",
		[]any{before.UnixMilli(), limit}, []any{&seq}, func() { seqs = append(seqs, seq) })
	if err != nil {
		return 0, fmt.Errorf("find old history: %w", err)
	}
	if len(seqs) == 0 {
		return 0, nil
	}
	// In spite of FORCE INDEX, a server scans a table of few pages rather than look for all these lines, and would wait for
	// lines that others have just inserted. A join reads each line by its number.
	text := "DELETE h FROM (SELECT ? AS old" + strings.Repeat(" UNION ALL SELECT ?", len(seqs)-1) + ") AS found" +
		s.dialect.LeftFirst() + "duetime_history AS h" + s.dialect.Force("PRIMARY") + " ON h.seq = old"
	if s.dialect == SQLite {
		text = "DELETE FROM duetime_history WHERE seq IN (" + marks(len(seqs)) + ")"
	}
	if _, err = s.db.ExecContext(ctx, text, seqs...); err != nil {
		return 0, fmt.Errorf("delete %d lines of history: %w", len(seqs), err)
	}
	return len(seqs), nil
}
