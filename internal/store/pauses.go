package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
)

// A pause of a whole queue is a request, which may have an end. Any other pause is a row of duetime_pauses, until its end. What
// it is about, and the end, are the key: a pause that is made longer is one row more, since tasks already stand at the earlier
// end. A row that was resumed stays until its end too, for the daemon, which wakes what stands there.

const (
	pauseColumns = "queue, kind, owner, until_at, made_at, resumed_at, actor"
	ofPause      = "owner = ? AND kind = ? AND queue = ?" // pauseKey has its arguments
	pausesChunk  = 100
	pausesPage   = 5000 // rows; Vitess reads and changes at most 10,000 at once
)

func pauseKey(p protocol.PauseOf) []any { return []any{p.Owner, p.Kind, p.Queue} }

// Pauses returns the pauses that stand, those of whole queues too, by queue, kind and owner: of several of the same, the last to
// end.
func (s *Store) Pauses(ctx context.Context) ([]protocol.Pause, error) {
	var all []protocol.Pause
	var last protocol.Pause
	for {
		page, err := s.pauses(ctx, s.db, "SELECT SUBSTR(name, ?) AS queue, '' AS kind, '' AS owner, until_at, made_at, 0 AS resumed_at, '' AS actor"+
			" FROM duetime_requests WHERE name LIKE ? AND "+s.dialect.standing("")+" UNION ALL SELECT * FROM (SELECT "+pauseColumns+
			" FROM duetime_pauses"+s.dialect.Force("PRIMARY")+" WHERE owner >= ? AND (owner, kind, queue, until_at) > (?,?,?,?) AND until_at > "+s.dialect.now()+
			" AND resumed_at = 0 ORDER BY owner, kind, queue, until_at LIMIT ?) AS page",
			append(append([]any{len(pauseRequest) + 1, pauseRequest + "%", last.Owner}, pauseKey(last.PauseOf)...), msOrZero(last.Until), pausesPage)...)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if page = slices.DeleteFunc(page, protocol.Pause.OfQueue); len(page) < pausesPage {
			break
		}
		last = slices.MaxFunc(page, byPauseKey)
	}
	slices.SortFunc(all, func(a, b protocol.Pause) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner), b.Until.Compare(a.Until))
	})
	return slices.CompactFunc(all, func(a, b protocol.Pause) bool { return a.PauseOf == b.PauseOf }), nil
}

// byPauseKey orders pauses as the primary key does.
func byPauseKey(a, b protocol.Pause) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Queue, b.Queue), a.Until.Compare(b.Until))
}

// ResumedPauses returns a page of the pauses that were resumed before their ends, in the order of the resumes, which begins after one
// of them; the first page follows the zero one.
func (s *Store) ResumedPauses(ctx context.Context, after protocol.Pause, limit int) ([]protocol.Pause, error) {
	resumed := max(1, msOrZero(after.Resumed))
	args := append(append([]any{resumed, resumed}, pauseKey(after.PauseOf)...), msOrZero(after.Until), limit)
	return s.pauses(ctx, s.db, "SELECT "+pauseColumns+" FROM duetime_pauses WHERE resumed_at >= ? AND (resumed_at > ? OR (owner, kind, queue, until_at) > (?,?,?,?))"+
		" ORDER BY resumed_at, owner, kind, queue, until_at LIMIT ?", args...)
}

// PausesOf returns the pauses that stand of these owners, and of kinds of all owners. Those of whole queues are not among them.
func (s *Store) PausesOf(ctx context.Context, q sqlx.QueryerContext, owners []string) (protocol.Pauses, error) {
	args := make([]any, 0, len(owners)+1)
	for _, owner := range append(owners, "") {
		args = append(args, owner)
	}
	all, err := s.pauses(ctx, q, "SELECT "+pauseColumns+" FROM duetime_pauses"+s.dialect.Force("PRIMARY")+" WHERE owner IN ("+marks(len(args))+
		") AND until_at > "+s.dialect.now()+" AND resumed_at = 0", args...)
	return protocol.PausesOf(all), err
}

func (s *Store) pauses(ctx context.Context, q sqlx.QueryerContext, text string, args ...any) (all []protocol.Pause, err error) {
	var p protocol.Pause
	var until, resumed int64
	dest := []any{&p.Queue, &p.Kind, &p.Owner, &until, unixMs{&p.Made}, &resumed, &p.Actor}
	err = forEach(ctx, q, text, args, dest, func() {
		p.Until, p.Resumed = timeOrZero(until), timeOrZero(resumed)
		all = append(all, p)
	})
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	return all, nil
}

func timeOrZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return fromMs(ms)
}

// PutPauses makes pauses that are not of whole queues. Those that stand are not made shorter by it.
func (s *Store) PutPauses(ctx context.Context, q sqlx.ExtContext, pauses []protocol.Pause) error {
	set := " ON DUPLICATE KEY UPDATE made_at = VALUES(made_at), actor = VALUES(actor), resumed_at = 0"
	if s.dialect == SQLite {
		set = " ON CONFLICT (owner, kind, queue, until_at) DO UPDATE SET made_at = excluded.made_at, actor = excluded.actor, resumed_at = 0"
	}
	for part := range slices.Chunk(pauses, pausesChunk) {
		args := make([]any, 0, 6*len(part))
		for _, p := range part {
			args = append(args, p.Queue, p.Kind, p.Owner, p.Until.UnixMilli(), p.Made.UnixMilli(), transition.Cut(p.Actor, maxActor))
		}
		_, err := q.ExecContext(ctx, "INSERT INTO duetime_pauses (queue, kind, owner, until_at, made_at, actor) VALUES "+
			strings.Repeat(",(?,?,?,?,?,?)", len(part))[1:]+set, args...)
		if err != nil {
			return fmt.Errorf("write %d pauses: %w", len(part), err)
		}
	}
	return nil
}

// PauseUntil reads when a pause that stands ends; zero if it does not.
func (s *Store) PauseUntil(ctx context.Context, q sqlx.QueryerContext, of protocol.PauseOf) (until time.Time, err error) {
	var ms int64
	err = forEach(ctx, q, "SELECT COALESCE(MAX(until_at), 0) FROM duetime_pauses WHERE "+ofPause+" AND until_at > "+s.dialect.now()+" AND resumed_at = 0",
		pauseKey(of), []any{&ms}, func() { until = timeOrZero(ms) })
	if err != nil {
		return until, fmt.Errorf("read the pause of %s: %w", of, err)
	}
	return until, nil
}

// ResumePause ends a pause that is not of a whole queue before its end; false if none stands.
func (s *Store) ResumePause(ctx context.Context, q sqlx.ExtContext, of protocol.PauseOf, now time.Time) (stood bool, err error) {
	args := append([]any{now.UnixMilli()}, append(pauseKey(of), now.UnixMilli())...)
	for {
		var n int64
		r, err := q.ExecContext(ctx, "UPDATE duetime_pauses SET resumed_at = ? WHERE "+ofPause+" AND until_at > ? AND resumed_at = 0"+
			s.dialect.limitChange(pausesPage), args...)
		if err == nil {
			n, err = r.RowsAffected()
		}
		if err != nil {
			return false, fmt.Errorf("resume %s: %w", of, err)
		}
		if stood = stood || n > 0; n < pausesPage {
			return stood, nil
		}
	}
}

// ForgetPauses deletes up to limit rows of pauses whose ends were before a moment, and returns their number; and those of whole
// queues, whose names it returns. It finds them first without a lock: a DELETE would wait for rows that others write.
func (s *Store) ForgetPauses(ctx context.Context, before time.Time, limit int) (n int, queues []string, err error) {
	over, err := s.pauses(ctx, s.db, "SELECT "+pauseColumns+" FROM duetime_pauses WHERE until_at < ? ORDER BY until_at LIMIT ?", before.UnixMilli(), limit)
	if err == nil {
		err = s.DropPauses(ctx, over)
	}
	if err != nil {
		return 0, nil, err
	}
	queues, err = s.forgetQueuePauses(ctx, before)
	return len(over), queues, err
}

// DropPauses deletes pauses that are not of whole queues, but for those that were made or resumed anew since they were read.
func (s *Store) DropPauses(ctx context.Context, read []protocol.Pause) error {
	return s.dropPauses(ctx, s.db, read)
}

func (s *Store) dropPauses(ctx context.Context, q sqlx.ExtContext, read []protocol.Pause) error {
	for part := range slices.Chunk(read, pausesChunk) {
		var args []any
		for _, p := range part {
			args = append(append(args, pauseKey(p.PauseOf)...), p.Until.UnixMilli(), msOrZero(p.Resumed))
		}
		_, err := q.ExecContext(ctx, s.dialect.deletePinned("duetime_pauses")+" WHERE "+
			strings.Repeat(" OR ("+ofPause+" AND until_at = ? AND resumed_at = ?)", len(part))[len(" OR "):], args...)
		if err != nil {
			return fmt.Errorf("forget %d pauses: %w", len(part), err)
		}
	}
	return nil
}

func (s *Store) forgetQueuePauses(ctx context.Context, before time.Time) (queues []string, err error) {
	var names []any
	var name string
	err = forEach(ctx, s.db, "SELECT name FROM duetime_requests WHERE name LIKE ? AND until_at > 0 AND until_at < ?",
		[]any{pauseRequest + "%", before.UnixMilli()}, []any{&name}, func() {
			names, queues = append(names, name), append(queues, strings.TrimPrefix(name, pauseRequest))
		})
	if err == nil && len(names) > 0 {
		_, err = s.db.ExecContext(ctx, s.dialect.deletePinned("duetime_requests")+" WHERE name IN ("+marks(len(names))+
			") AND until_at > 0 AND until_at < ?", append(names, before.UnixMilli())...)
	}
	if err != nil {
		return nil, fmt.Errorf("forget pauses of queues: %w", err)
	}
	return queues, nil
}

// standing is the condition that a request of this table, or alias with its dot, has not ended by itself.
func (d Dialect) standing(of string) string {
	return "(" + of + "until_at = 0 OR " + of + "until_at > " + d.now() + ")"
}

// pausedRow is whether a pause of its owner, or of its kind alone, stands for a row of duetime_tasks. Each of the two goes by
// the primary key: handlers may have paused thousands of owners.
func (d Dialect) pausedRow() string {
	exists := func(of string) string {
		return "EXISTS (SELECT 1 FROM duetime_pauses AS p" + d.Force("PRIMARY") + " WHERE " + of +
			" AND p.queue IN (duetime_tasks.queue, '') AND p.until_at > " + d.now() + " AND p.resumed_at = 0)"
	}
	return exists("p.owner = duetime_tasks.owner AND p.kind IN (duetime_tasks.kind, '')") +
		" OR " + exists("p.owner = '' AND p.kind = duetime_tasks.kind")
}
