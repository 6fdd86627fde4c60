package store_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

func TestWitnessVerdicts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx, first, other := t.Context(), task.NewID(), task.NewID()
		for _, e := range []protocol.WitnessEffect{
			{Play: first, Part: "task", Due: time.UnixMilli(5000).UTC(), Data: 2}, {Play: other, Part: "task", Due: time.UnixMilli(1).UTC()},
		} {
			must(t, s.InsertEffect(ctx, s.DB(), e))
		}
		now, effects, err := s.Effects(ctx)
		must(t, err)
		if e := effects[0]; len(effects) != 2 || e.Play != first || e.Data != 2 || e.At.Sub(now).Abs() > time.Minute || e.Due != time.UnixMilli(5000).UTC() {
			t.Errorf("at %v the effects are %+v", now, effects)
		}
		must(t, s.SaveVerdict(ctx, first, ""))
		must(t, s.SaveVerdict(ctx, other, "lost"))
		if w := value[store.Witnessed](t)(s.Witnessed(ctx)); w != (store.Witnessed{Judged: 2, Faulty: 1, Faults: "lost"}) {
			t.Errorf("it stands %+v", w)
		}
		must(t, s.SaveVerdict(ctx, first, "doubled"))
		must(t, exec(s.DB(), "UPDATE duetime_witness_plays SET judged_at = 100"))
		if w := value[store.Witnessed](t)(s.Witnessed(ctx)); w.Judged != 0 || w.Faulty != 2 {
			t.Errorf("after long it stands %+v", w)
		}
	})
}

// witnessed makes a task one of the witness.
func witnessed(row task.Task) task.Task {
	row.Owner, row.Kind, row.Queue = protocol.WitnessQueue+".1", protocol.WitnessQueue, protocol.WitnessQueue
	return row
}

// TestForgetWitnessed deletes what an ended task, and a play, have left, and leaves alone what is pending or not the witness's.
func TestForgetWitnessed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx, play := t.Context(), task.NewID()
		rows := newTasks(t, 3)
		rows[0], rows[1], rows[2].Owner = witnessed(rows[0]), witnessed(rows[1]), protocol.WitnessQueue+".1"
		for _, row := range inserted(t, s, rows...) {
			label(t, s, row, "tier=gold")
			must(t, s.Record(ctx, nil, []protocol.Event{{At: t0, Task: row.ID, Name: protocol.EventMoved}}))
		}
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1, updated_at = 1 WHERE id <> ?", rows[1].ID[:]))
		must(t, s.SaveVerdict(ctx, play, "lost"))
		must(t, s.InsertEffect(ctx, s.DB(), protocol.WitnessEffect{Play: play}))
		now, effects, err := s.Effects(ctx)
		must(t, err)
		for _, kept := range []struct {
			after time.Duration
			plays int
		}{{2 * time.Minute, 1}, {2 * time.Hour, 0}} {
			must(t, s.ForgetWitnessed(ctx, []int64{effects[0].Seq}, now.Add(kept.after), time.Hour))
			for table, want := range map[string]int{
				"duetime_tasks": 2, "duetime_labels": 2, "duetime_history": 2, "duetime_witness_effects": 0, "duetime_witness_plays": kept.plays,
			} {
				var n int
				if must(t, s.DB().GetContext(ctx, &n, "SELECT COUNT(*) FROM "+table)); n != want {
					t.Errorf("%d rows of %s are left after %v, want %d", n, table, kept.after, want)
				}
			}
		}
	})
}

// TestWitnessIsLeftOut has a task of the witness and one of a user: what users list and change has the latter alone.
func TestWitnessIsLeftOut(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		inserted(t, s, newTask(t, "ann", 0), witnessed(newTask(t, "ann", 0)))
		walk := func(queue string) int {
			rows, _, err := s.Walk(ctx, store.WalkQuery{Queue: queue, To: t0.Add(time.Hour), Scan: 10, Limit: 10})
			must(t, err)
			return len(rows)
		}
		next := func(o task.Operation) int {
			ids, _, _, err := s.NextIDs(ctx, s.DB(), o, 10, 10)
			must(t, err)
			return len(ids)
		}
		for _, f := range []task.Filter{{All: true}, {Queue: protocol.WitnessQueue}} {
			o := task.Operation{Verb: task.VerbCancel, Filter: f}
			for name, got := range map[string]int{
				"list": len(value[[]task.Task](t)(s.List(ctx, store.Filter{Queue: f.Queue}))), "walk": walk(f.Queue), "next": next(o),
				"matching": len(value[[]task.Task](t)(s.Matching(ctx, o, 10))), "count of matching": int(value[int64](t)(s.CountMatching(ctx, o))),
			} {
				if got != 1 {
					t.Errorf("%s of queue %q: %d, want 1", name, f.Queue, got)
				}
			}
		}
	})
}
