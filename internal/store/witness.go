package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

const (
	witnessPage  = 1000             // effects and tasks that one statement reads
	witnessKept  = 10 * time.Minute // how long a verdict without a fault stays
	witnessEnded = 10 * time.Second // how long an ended task of the witness stays: the judge asks its row whether it has ended
)

// InsertEffect writes the effect of a task of the witness in the task's transaction.
func (s *Store) InsertEffect(ctx context.Context, q sqlx.ExecerContext, e protocol.WitnessEffect) error {
	_, err := q.ExecContext(ctx, "INSERT INTO duetime_witness_effects (play, part, due_at, at, data) VALUES (?, ?, ?, "+s.dialect.now()+", ?)",
		e.Play[:], e.Part, e.Due.UnixMilli(), e.Data)
	if err != nil {
		return fmt.Errorf("insert effect of the witness: %w", err)
	}
	return nil
}

// Effects reads the newest effects in the order of their inserts, and the database's time just before.
func (s *Store) Effects(ctx context.Context) (now time.Time, effects []protocol.WitnessEffect, err error) {
	if now, err = s.Now(ctx, nil); err != nil {
		return now, nil, err
	}
	var e protocol.WitnessEffect
	err = forEach(ctx, s.db, "SELECT seq, play, part, due_at, at, data FROM duetime_witness_effects ORDER BY seq DESC LIMIT ?",
		[]any{witnessPage}, []any{&e.Seq, idBytes{&e.Play}, &e.Part, unixMs{&e.Due}, unixMs{&e.At}, &e.Data},
		func() { effects = append(effects, e) })
	if err != nil {
		return now, nil, fmt.Errorf("read effects of the witness: %w", err)
	}
	slices.Reverse(effects)
	return now, effects, nil
}

// SaveVerdict writes the verdict on a play: its faults, or "".
func (s *Store) SaveVerdict(ctx context.Context, play task.ID, faults string) error {
	_, err := s.db.ExecContext(ctx, "REPLACE INTO duetime_witness_plays (id, judged_at, faults) VALUES (?, "+s.dialect.now()+", ?)",
		play[:], transition.Cut(faults, 255))
	if err != nil {
		return fmt.Errorf("save verdict of the witness: %w", err)
	}
	return nil
}

// ForgetWitnessed deletes effects, the tasks of the witness that ended a while ago, with their labels and history, and the
// verdicts that have been kept long enough.
func (s *Store) ForgetWitnessed(ctx context.Context, effects []int64, now time.Time, retention time.Duration) error {
	var tasks []task.ID
	var id task.ID
	before := now.Add(-witnessEnded)
	// Its owners find its tasks whatever the table holds: / follows the point.
	errs := []error{forEach(ctx, s.db, "SELECT id FROM duetime_tasks"+s.dialect.Force("duetime_tasks_owner")+
		" WHERE owner > ? AND owner < ? AND queue = ? AND state <> 0 AND updated_at < ? LIMIT ?",
		[]any{protocol.WitnessQueue + ".", protocol.WitnessQueue + "/", protocol.WitnessQueue, before.UnixMilli(), witnessPage},
		[]any{idBytes{&id}}, func() { tasks = append(tasks, id) })}
	del := func(text string, args ...any) {
		_, err := s.db.ExecContext(ctx, text, args...)
		errs = append(errs, err)
	}
	if len(tasks) > 0 {
		errs = append(errs, s.deleteFinished(ctx, liveTasks, tasks, before))
		del("DELETE FROM duetime_history WHERE task IN ("+marks(len(tasks))+")", idArgs(tasks)...)
	}
	if len(effects) > 0 {
		del(s.dialect.deletePinned("duetime_witness_effects")+" WHERE seq IN ("+marks(len(effects))+")", anys(effects)...)
	}
	del("DELETE FROM duetime_witness_plays WHERE judged_at < ? AND (faults = '' OR judged_at < ?)",
		now.Add(-witnessKept).UnixMilli(), now.Add(-max(retention, witnessKept)).UnixMilli())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget plays of the witness: %w", err)
	}
	return nil
}

// Witnessed is how the witness of the deployment stands.
type Witnessed struct {
	Judged int    // plays with a verdict, of the last ten minutes
	Faulty int    // those with a fault, which are kept for the retention
	Faults string // of the newest of these, with commas
}

// Witnessed reads how the witness stands.
func (s *Store) Witnessed(ctx context.Context) (w Witnessed, err error) {
	err = s.db.QueryRowxContext(ctx, "SELECT COALESCE(SUM(judged_at > "+s.dialect.now()+" - ?), 0), COALESCE(SUM(faults <> ''), 0),"+
		" COALESCE((SELECT faults FROM duetime_witness_plays WHERE faults <> '' ORDER BY id DESC LIMIT 1), '') FROM duetime_witness_plays",
		witnessKept.Milliseconds()).Scan(&w.Judged, &w.Faulty, &w.Faults)
	if err != nil {
		return w, fmt.Errorf("read how the witness stands: %w", err)
	}
	return w, nil
}
