package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// changeOf begins a change of the number of shards, and returns the layout after it.
func changeOf(t *testing.T, s *store.Store, shards int) protocol.Layout {
	t.Helper()
	must(t, s.BeginChange(t.Context(), s.DB(), value[protocol.Layout](t)(s.Layout(t.Context())), shards))
	return value[protocol.Layout](t)(s.Layout(t.Context()))
}

func shardChange(t *testing.T, s *store.Store) {
	ctx := t.Context()
	before := value[protocol.Layout](t)(s.Layout(ctx))
	want := func(step string, shards, ever, from int, generation int64, paused bool, moved int64) {
		t.Helper()
		got := value[protocol.Layout](t)(s.Layout(ctx))
		l := before
		l.Shards, l.ShardsEver, l.ShardsFrom, l.Generation, l.Paused, l.Moved, l.ToMove = shards, ever, from, generation, paused, moved, got.ToMove
		if d := cmp.Diff(l, got); d != "" {
			t.Errorf("%s: layout (-want +got):\n%s", step, d)
		}
	}
	must(t, s.PollShards(ctx, 40))
	must(t, s.PollShards(ctx, 20))
	want("polled", shards, 40, 0, 0, false, 0)
	l := changeOf(t, s, 64)
	want("begun", 64, 64, shards, 1, false, 0)
	if err := s.BeginChange(ctx, s.DB(), before, 8); !errors.Is(err, protocol.ErrLayoutChanged) {
		t.Errorf("a change beside another: %v, want ErrLayoutChanged", err)
	}
	if changed := value[bool](t)(s.PauseChange(ctx, s.DB(), l, true)); !changed {
		t.Error("pause: not changed")
	}
	if changed := value[bool](t)(s.PauseChange(ctx, s.DB(), l, true)); changed {
		t.Error("pause of a paused change: changed")
	}
	want("paused", 64, 64, shards, 1, true, 0)
	if err := s.EndChange(ctx, l, protocol.Event{At: t0, Name: protocol.EventShards}); !errors.Is(err, protocol.ErrLayoutChanged) {
		t.Errorf("end of a paused change: %v, want ErrLayoutChanged", err)
	}
	if changed := value[bool](t)(s.PauseChange(ctx, s.DB(), l, false)); !changed {
		t.Error("resume: not changed")
	}
	must(t, s.CancelChange(ctx, s.DB(), l))
	want("cancelled", shards, 64, 64, 2, false, 0)
	if err := s.CancelChange(ctx, s.DB(), l); !errors.Is(err, protocol.ErrLayoutChanged) {
		t.Errorf("cancel of an older change: %v, want ErrLayoutChanged", err)
	}
	if _, err := s.PauseChange(ctx, s.DB(), l, true); !errors.Is(err, protocol.ErrLayoutChanged) {
		t.Errorf("pause of an older change: %v, want ErrLayoutChanged", err)
	}
	if at := value[time.Time](t)(s.ShardsChanged(ctx)); !at.IsZero() {
		t.Errorf("changed at %v before any line of the history says so", at)
	}
	must(t, s.EndChange(ctx, value[protocol.Layout](t)(s.Layout(ctx)), protocol.Event{At: t0, Name: protocol.EventShards}))
	want("over", shards, 64, 0, 2, false, 0)
	must(t, s.Record(ctx, nil, []protocol.Event{{At: t0.Add(time.Hour), Name: protocol.EventPaused, Detail: "mails"}}))
	if at := value[time.Time](t)(s.ShardsChanged(ctx)); !at.Equal(t0) {
		t.Errorf("changed at %v, want %v", at, t0)
	}
	changeOf(t, s, 8)
	want("shrunk", 8, 64, shards, 3, false, 0)
}

func rehome(t *testing.T, s *store.Store) {
	ctx := t.Context()
	rows := inserted(t, s, newTasks(t, 250)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { // a done row stays, a dead one goes
		must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0))
		rows[0] = transition.Finish(rows[0], t0)
		rows[1] = transition.Discard(rows[1], errors.New("enough"), t0)
		must(t, worldtest.Save(ctx, s, tx, rows[1:2]...))
	})
	if n := value[int64](t)(s.CountPlaced(ctx)); n != 249 {
		t.Errorf("%d rows need a place, want 249", n)
	}
	l := changeOf(t, s, 3)
	moved := value[[]task.Task](t)(s.Rehome(ctx, l, ids(rows)))
	want := 0
	for i := range rows {
		if l.Misplaced(rows[i]) {
			rows[i].Shard = l.Place(rows[i].Owner)
			want++
		}
	}
	if d := cmp.Diff(rows, value[[]task.Task](t)(s.Get(ctx, nil, ids(rows)))); d != "" {
		t.Errorf("after Rehome (-want +got):\n%s", d)
	}
	if now := value[protocol.Layout](t)(s.Layout(ctx)); len(moved) != want || want < 100 || now.Moved != int64(want) {
		t.Errorf("%d rows rehomed, the layout says %d, want %d", len(moved), now.Moved, want)
	}
	for _, row := range moved {
		if row.Shard != l.Place(row.Owner) || row.Version < 1 || row.RunAt.IsZero() {
			t.Fatalf("rehomed %+v: not its entry in the new place", row)
		}
	}
	if again := value[[]task.Task](t)(s.Rehome(ctx, l, ids(rows))); len(again) != 0 {
		t.Errorf("%d rows rehomed twice", len(again))
	}
	if dead := value[[]task.Task](t)(s.DeadPage(ctx, protocol.Cursor{}, 10)); len(dead) != 1 || dead[0].ID != rows[1].ID {
		t.Errorf("dead rows %v, want %s", ids(dead), rows[1].ID)
	}

	must(t, s.CancelChange(ctx, s.DB(), l))
	if _, err := s.Rehome(ctx, l, ids(rows)); err != nil {
		t.Errorf("rehome by an older layout, nothing to do: %v", err)
	}
	back := value[protocol.Layout](t)(s.Layout(ctx))
	value[bool](t)(s.PauseChange(ctx, s.DB(), back, true))
	if _, err := s.Rehome(ctx, back, ids(rows)); !errors.Is(err, protocol.ErrLayoutChanged) {
		t.Errorf("rehome of a paused change: %v, want ErrLayoutChanged", err)
	}
	if d := cmp.Diff(rows, value[[]task.Task](t)(s.Get(ctx, nil, ids(rows)))); d != "" {
		t.Errorf("after a refused Rehome (-want +got):\n%s", d)
	}
}

// A row that somebody holds is left where it is.
func rehomeSkipsLocked(t *testing.T, s *store.Store) {
	if s.Dialect() == store.SQLite {
		t.Skip("SQLite has one writer")
	}
	rows := inserted(t, s, newTask(t, "ann", time.Hour), newTask(t, "ann", time.Hour))
	shard := rows[0].Shard
	l := changeOf(t, s, 1)
	if shard == 0 {
		t.Fatal("ann's place does not move: take another owner")
	}
	holder := begin(t, s)
	value[[]task.Task](t)(s.Lock(t.Context(), holder, ids(rows[:1])))
	if moved := value[[]task.Task](t)(s.Rehome(t.Context(), l, ids(rows))); len(moved) != 1 || moved[0].ID != rows[1].ID {
		t.Errorf("rehomed %v beside a lock on %s, want %s", ids(moved), rows[0].ID, rows[1].ID)
	}
}

// Inserts go to the new place as soon as the process has read the layout, within seconds; reads know the new shards at once.
func insertsFollowTheLayout(t *testing.T, s *store.Store) {
	ctx := t.Context()
	old := inserted(t, s, newTask(t, "ann", time.Hour))[0]
	other := store.On(s.DB(), s.Dialect())
	l := changeOf(t, other, 512)
	if l.Place("ann") < shards {
		t.Fatal("ann's new place is one of the old shards: take another owner")
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		row := inserted(t, s, newTask(t, "ann", time.Hour))[0]
		if row.Shard == l.Place("ann") {
			break
		}
		if row.Shard != old.Shard || time.Now().After(deadline) {
			t.Fatalf("shard %d, want %d before and %d after the process has seen the change", row.Shard, old.Shard, l.Place("ann"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := value[protocol.Layout](t)(s.RecentLayout(ctx)); got.Shards != 512 {
		t.Errorf("the recent layout has %d shards, want 512", got.Shards)
	}
}
