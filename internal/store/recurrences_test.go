package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// timetables compares timetables by ==.
var timetables = cmp.Comparer(func(a, b recur.Timetable) bool { return a == b })

func newRecurrence(t *testing.T, owner, name string) task.Recurrence {
	t.Helper()
	policy := recur.Policy{CatchUp: recur.CatchUpAll(3), Jitter: time.Second, End: t0.Add(1000 * time.Hour)}
	spec := task.NewKind[string]("meal.done").Recurring(owner, "Zoë 🐈", task.Subject("pet 9"))
	r, err := spec.Recurrence(name, recur.Cron("0 8 * * *", "Asia/Shanghai"), policy, t0)
	must(t, err)
	return r
}

func recurrences(t *testing.T, s *store.Store) {
	ctx := t.Context()
	ann, bob := newRecurrence(t, "ann", "meals"), newRecurrence(t, "bob", "meals")
	ann.Newest, ann.DueAt = task.NewID(), t0.Add(time.Hour)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, s.InsertRecurrence(ctx, tx, ann))
		must(t, s.InsertRecurrence(ctx, tx, bob))
	})
	got := value[[]task.Recurrence](t)(s.GetRecurrences(ctx, s.DB(), []task.ID{bob.ID, task.NewID(), ann.ID}))
	if d := cmp.Diff([]task.Recurrence{ann, bob}, got, timetables, cmpopts.SortSlices(byOwner)); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	tx := begin(t, s)
	if err := s.InsertRecurrence(ctx, tx, newRecurrence(t, "ann", "meals")); !errors.Is(err, store.ErrConflict) || !s.Retryable(err) {
		t.Errorf("the same name: %v, want a retryable conflict", err)
	}
	must(t, tx.Rollback())

	before := []task.Recurrence{ann, bob}
	ann.State, ann.Note, ann.Newest, ann.DueAt, ann.BeganAt = task.RecurrencePaused, "sick", task.ID{}, time.Time{}, t0.Add(time.Minute)
	ann.Passed, ann.Made, ann.Skipped, ann.CaughtUp = t0.Add(2*time.Hour), 5, 6, 7
	bob.Newest, bob.DueAt, bob.Made, bob.UpdatedAt = task.NewID(), t0.Add(3*time.Hour), 1, t0.Add(4*time.Hour)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		locked := value[[]task.Recurrence](t)(s.LockRecurrences(ctx, tx, []task.ID{ann.ID, bob.ID}))
		if len(locked) != 2 {
			t.Errorf("locked %d rows", len(locked))
		}
		must(t, s.SaveRecurrences(ctx, tx, before, []task.Recurrence{ann, bob}))
	})
	ann.UpdatedAt = t0.Add(time.Millisecond) // each write raises it
	was := bob
	bob.Timetable, bob.Policy, bob.Payload = recur.Every(time.Minute), recur.Policy{}, []byte("1")
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.DefineRecurrence(ctx, tx, was, bob)) })
	bob.UpdatedAt = was.UpdatedAt.Add(time.Millisecond)
	for name, stale := range map[string]func(tx *sqlx.Tx) error{
		"progress, both": func(tx *sqlx.Tx) error { return s.SaveRecurrences(ctx, tx, before, []task.Recurrence{ann, bob}) },
		"progress, of one": func(tx *sqlx.Tx) error {
			return s.SaveRecurrences(ctx, tx, []task.Recurrence{ann, was}, []task.Recurrence{ann, bob})
		},
		"definition": func(tx *sqlx.Tx) error { return s.DefineRecurrence(ctx, tx, was, bob) },
	} {
		tx := begin(t, s)
		if err := stale(tx); !errors.Is(err, store.ErrConflict) || !s.Retryable(err) {
			t.Errorf("%s over a row that has changed: %v, want a retryable conflict", name, err)
		}
		must(t, tx.Rollback())
	}
	for _, want := range []task.Recurrence{ann, bob} {
		got, found, err := s.Recurrence(ctx, s.DB(), want.Owner, "meals")
		must(t, err)
		if d := cmp.Diff(want, got, timetables); d != "" || !found {
			t.Errorf("after the changes (-want +got):\n%s", d)
		}
	}
	if _, found, err := s.Recurrence(ctx, s.DB(), "ann", "none"); found || err != nil {
		t.Errorf("an unknown name: found %v, %v", found, err)
	}
}

func byOwner(a, b task.Recurrence) bool { return a.Owner < b.Owner }

func dueRecurrences(t *testing.T, s *store.Store) {
	var want []task.ID
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i, owner := range []string{"a", "b", "c", "d", "e", "f"} {
			r := newRecurrence(t, owner, "meals")
			switch i {
			case 0: // it has no task: it is due
			case 4:
				r.DueAt, r.State = t0, task.RecurrencePaused
			case 5:
				r.DueAt = t0.Add(time.Hour)
			default:
				r.DueAt = t0.Add(time.Duration(i) * time.Second)
			}
			must(t, s.InsertRecurrence(ctx, tx, r))
			if i < 4 {
				want = append(want, r.ID)
			}
		}
	})
	var got []task.ID
	for after, full := (protocol.Cursor{}), true; full; {
		rows := value[[]task.Recurrence](t)(s.DueRecurrences(t.Context(), t0.Add(time.Minute), after, 2))
		for _, r := range rows {
			got = append(got, r.ID)
			after = protocol.Cursor{At: r.DueAt, ID: r.ID}
		}
		full = len(rows) == 2
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("due (-want +got):\n%s", d)
	}
}

func purgeRecurrences(t *testing.T, s *store.Store) {
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i, state := range []task.RecurrenceState{task.RecurrenceActive, task.RecurrencePaused, task.RecurrenceStopped, task.RecurrenceStopped, task.RecurrenceOver} {
			r := newRecurrence(t, "ann", state.String()+string(rune('0'+i)))
			if r.State = state; i == 3 {
				r.UpdatedAt = t0.Add(time.Hour)
			}
			must(t, s.InsertRecurrence(ctx, tx, r))
		}
	})
	n := value[int](t)(s.PurgeRecurrences(t.Context(), t0.Add(time.Minute), 10))
	if left := count(t, s, "SELECT COUNT(*) FROM duetime_recurrences"); n != 1 || left != 4 {
		t.Errorf("%d rows were purged and %d are left, want 1 and 4", n, left)
	}
}

// A definition that this program can't read fails no statement, since it may be about many rows.
func unreadableRecurrence(t *testing.T, s *store.Store) {
	r := newRecurrence(t, "ann", "meals")
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.InsertRecurrence(ctx, tx, r)) })
	must(t, exec(s.DB(), "UPDATE duetime_recurrences SET timetable = 'sometimes', policy = 'none'"))
	got, _, err := s.Recurrence(t.Context(), s.DB(), "ann", "meals")
	must(t, err)
	if got.Timetable.Check() == nil || got.Policy.Check() == nil {
		t.Errorf("got %v and %+v, want both refused by their Check", got.Timetable, got.Policy)
	}
}

// A recurrence that one transaction has locked is not among the free ones of another, which locks none whose newest task it was
// not asked for.
func TestLockFreeRecurrences(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	ann, bob, cid := newRecurrence(t, "ann", "meals"), newRecurrence(t, "bob", "meals"), newRecurrence(t, "cid", "meals")
	ann.Newest, bob.Newest, cid.Newest = task.NewID(), task.NewID(), task.NewID()
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, s.InsertRecurrence(ctx, tx, ann))
		must(t, s.InsertRecurrence(ctx, tx, bob))
		must(t, s.InsertRecurrence(ctx, tx, cid))
	})
	one, two := begin(t, s), begin(t, s)
	value[[]task.Recurrence](t)(s.LockRecurrences(t.Context(), one, []task.ID{ann.ID}))
	free := value[[]task.Recurrence](t)(s.LockFreeRecurrences(t.Context(), two, []task.ID{ann.ID, bob.ID, cid.ID}, []task.ID{ann.Newest, bob.Newest}))
	if len(free) != 1 || free[0].ID != bob.ID {
		t.Errorf("free are %+v, want bob's", free)
	}
	value[[]task.Recurrence](t)(s.LockFreeRecurrences(t.Context(), two, []task.ID{cid.ID}, []task.ID{ann.Newest})) // the only one
	if others := value[[]task.Recurrence](t)(s.LockFreeRecurrences(t.Context(), one, []task.ID{cid.ID}, []task.ID{cid.Newest})); len(others) != 1 {
		t.Error("a recurrence whose newest task is another one was kept locked")
	}
}

// An owner of many pending tasks stops one recurrence after the other: each stop reads a bounded number of rows, and the ticks.
func TestPendingTicksOfACrowdedOwner(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{MaxOpen: 1}) // whose session counts all
	r, other := newRecurrence(t, "ann", "meals"), newRecurrence(t, "ann", "walks")
	was := r
	was.Kind = "meal.early"
	ended := transition.ExtraTask(r, t0)
	pending := inserted(t, s, transition.ExtraTask(r, t0.Add(time.Second)), transition.ExtraTask(was, t0.Add(2*time.Second)), transition.ExtraTask(other, t0), ended)
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1 WHERE id = ?", ended.ID[:]))
	for _, crowd := range []int{1000, 30_000} {
		crowdOf(t, s, "ann", crowd)
		before := rowsRead(t, s)
		got := value[[]task.ID](t)(s.PendingTicks(t.Context(), s.DB(), "ann", []task.ID{r.ID}))
		if n := rowsRead(t, s) - before; n > 11_000 {
			t.Errorf("read %d rows of %d", n, crowd)
		}
		if d := cmp.Diff(ids(pending[:2]), got, cmpopts.SortSlices(func(a, b task.ID) bool { return a.String() < b.String() })); d != "" {
			t.Errorf("pending ticks beside %d tasks (-want +got):\n%s", crowd, d)
		}
	}
}

// crowdOf gives the owner n pending tasks, whose ids differ from those of fewer.
func crowdOf(t *testing.T, s *store.Store, owner string, n int) {
	t.Helper()
	must(t, exec(s.DB(), "INSERT INTO duetime_tasks (id, kind, owner, due_at, run_at, payload, created_at, updated_at)"+
		" SELECT UNHEX(LPAD(HEX(seq), 32, '0')), 'meal.done', ?, 0, 0, '7', 0, 0 FROM "+pipelinetest.Numbers(n+1, 2*n), owner))
}

// rowsRead is how many rows the store's only session has read in the order of an index.
func rowsRead(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	var name string
	must(t, s.DB().QueryRowxContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read_next'").Scan(&name, &n))
	return n
}

func count(t *testing.T, s *store.Store, query string) (n int) {
	t.Helper()
	must(t, s.DB().GetContext(t.Context(), &n, query))
	return n
}
