package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// conformance are the cases with the same results on both databases; lock_test.go tests locking.
var conformance = map[string]func(t *testing.T, s *store.Store){
	"insert and save read back":        insertReadsBack,
	"a thousand in one call":           insertThousand,
	"taken id":                         takenID,
	"taken key":                        takenKey,
	"one key twice in a call":          keyTwice,
	"key is free after the end":        keyAfterEnd,
	"save":                             save,
	"save over another version":        saveConflict,
	"save many that differ":            saveMany,
	"save many that moved alike":       saveShifted,
	"save many that were replaced":     saveReplaced,
	"longest key of a window":          longestWindowKey,
	"finish":                           finish,
	"finish over another version":      finishConflict,
	"lock":                             lock,
	"owner's rows":                     ownerRows,
	"owner's due rows":                 dueRows,
	"rows that were put off":           putOffRows,
	"pages of pending":                 pagesOfPending,
	"walks":                            walks,
	"walks that find":                  walksFind,
	"looks":                            looks,
	"pages of changed":                 pagesOfChanged,
	"pages of pending, but for queues": pagesExcept,
	"purge":                            purge,
	"purge of ticks":                   purgeTicks,
	"purge behind pending rows":        purgeBehindPending,
	"archive":                          archive,
	"purge of archived rows":           purgeArchived,
	"insert again":                     insertAgain,
	"group of archived members":        groupOfArchived,
	"list":                             list,
	"stats":                            stats,
	"overdue":                          overdue,
	"epochs":                           epochs,
	"clock":                            clock,
	"rows of another service":          foreignRow,
	"rolled back":                      rolledBack,
	"refused COMMIT after lost tx":     lostByContext,
	"status and text of migrations":    migrationStatus,
	"layout keeps its shard count":     layoutStays,
	"another namespace":                otherNamespace,
	"change of the number of shards":   shardChange,
	"change of the horizon":            setHorizon,
	"rehome":                           rehome,
	"rehome skips locked rows":         rehomeSkipsLocked,
	"inserts follow the layout":        insertsFollowTheLayout,
	"concurrent increments of epochs":  concurrentEpochs,
	"recurrences":                      recurrences,
	"due recurrences":                  dueRecurrences,
	"purge of recurrences":             purgeRecurrences,
	"unreadable recurrence":            unreadableRecurrence,
	"operations":                       operations,
	"walk of an operation":             operationWalk,
	"preview of an operation":          operationPreview,
	"purge of operations":              purgeOperations,
	"unreadable operation":             unreadableOperation,
	"operation for recurrences":        operationForRecurrences,
	"operation that is bounded":        operationBounded,
	"operation that undoes":            operationUndoes,
	"limits":                           limits,
	"groups":                           groupsReadBack,
	"members of groups":                groupMembers,
	"purge of groups":                  purgeGroups,
	"labels":                           labelsReadBack,
	"list by labels":                   listByLabels,
	"purge of labels":                  purgeLabels,
	"walk by labels":                   walkByLabels,
	"view of pending tasks":            pendingView,
	"order":                            order,
	"due tasks of an order key":        dueInOrder,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, run := range conformance {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, run)
		})
	}
}

func insertReadsBack(t *testing.T, s *store.Store) {
	full := newTask(t, "Zoë 🐈", time.Hour, task.Subject("pet 9"), task.Once("k€y"))
	full.RunAt = t0.Add(2 * time.Hour)
	plain := newTask(t, "ann", 0)
	got := inserted(t, s, full, plain)
	full.Shard, plain.Shard = protocol.Shard(full.Owner, shards), protocol.Shard("ann", shards)
	want := []task.Task{full, plain}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Insert answered (-want +got):\n%s", d)
	}
	want[0].Version, want[0].Attempt, want[0].LastError = 2, 3, "it's \\ \"over\"\x00"
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, want[:1]...)) })
	for _, q := range []sqlx.QueryerContext{nil, s.DB()} {
		got = value[[]task.Task](t)(s.Get(t.Context(), q, []task.ID{plain.ID, task.NewID(), full.ID, plain.ID}))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Get answered (-want +got):\n%s", d)
		}
	}
}

func insertThousand(t *testing.T, s *store.Store) {
	tasks := newTasks(t, task.MaxPerCall)
	for i := range tasks {
		tasks[i].Payload = []byte(`"` + string(slices.Repeat([]byte{'\''}, task.MaxPayload-2)) + `"`)
	}
	inserted(t, s, tasks...)
	got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(tasks)))
	if len(got) != task.MaxPerCall || string(got[999].Payload) != string(tasks[999].Payload) {
		t.Errorf("read %d rows back, want %d with their payloads", len(got), task.MaxPerCall)
	}
}

func takenID(t *testing.T, s *store.Store) {
	first := inserted(t, s, newTask(t, "ann", time.Minute))[0]
	sameID := newTask(t, "bob", time.Hour, task.WithID(first.ID))
	other := newTask(t, "eve", time.Hour)
	got := inserted(t, s, other, sameID)
	other.Shard = protocol.Shard("eve", shards)
	if d := cmp.Diff([]task.Task{other, first}, got); d != "" {
		t.Errorf("Insert answered (-want +got):\n%s", d)
	}
}

func takenKey(t *testing.T, s *store.Store) {
	first := inserted(t, s, newTask(t, "ann", time.Minute, task.Key("meal")))[0]
	got := inserted(t, s,
		newTask(t, "ann", time.Hour, task.Key("other")),
		newTask(t, "ann", time.Hour, task.Key("meal")),
		newTask(t, "bob", time.Hour, task.Key("meal")),
		newTask(t, "ann", time.Hour, task.Once("meal")))
	for i, row := range got {
		if taken := row.ID == first.ID; taken != (i == 1) {
			t.Errorf("task %d: the existing row answered = %v", i, taken)
		}
	}
	if d := cmp.Diff(first, got[1]); d != "" {
		t.Errorf("existing row (-want +got):\n%s", d)
	}
}

func keyTwice(t *testing.T, s *store.Store) {
	a, b := newTask(t, "ann", time.Hour, task.Key("meal")), newTask(t, "ann", time.Minute, task.Key("meal"))
	got := inserted(t, s, b, newTask(t, "bob", 0), a, b)
	if got[0].ID != b.ID || got[2].ID != b.ID || got[3].ID != b.ID {
		t.Errorf("got %v, want the first of the call for each", ids(got))
	}
}

func keyAfterEnd(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTask(t, "ann", 0, task.Key("a")), newTask(t, "ann", 0, task.Once("b")), newTask(t, "ann", 0, task.Key("c")))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:2], t0))
		cancelled, err := transition.Cancel(rows[2], t0)
		must(t, err)
		must(t, worldtest.Save(ctx, s, tx, cancelled))
	})
	second := inserted(t, s, newTask(t, "ann", 0, task.Key("a")), newTask(t, "ann", 0, task.Once("b")), newTask(t, "ann", 0, task.Key("c")))
	if second[0].ID == rows[0].ID || second[2].ID == rows[2].ID {
		t.Error("the key of an ended task is still taken")
	}
	if second[1].ID != rows[1].ID || second[1].State != task.Done {
		t.Errorf("once: got %v, want the done task", second[1])
	}
}

func save(t *testing.T, s *store.Store) {
	row := inserted(t, s, newTask(t, "ann", time.Hour, task.Key("a")))[0]
	step := func(next task.Task) {
		t.Helper()
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, next)) })
		got := value[[]task.Task](t)(s.Get(t.Context(), nil, []task.ID{row.ID}))
		if d := cmp.Diff([]task.Task{next}, got); d != "" {
			t.Fatalf("after Save (-want +got):\n%s", d)
		}
		row = next
	}
	step(value[task.Task](t)(transition.Shift(row, -10*time.Minute, t0.Add(time.Second))))
	step(transition.Fail(row, errors.New("no food"), time.Second, t0.Add(time.Hour)))
	step(transition.Discard(row, errors.New("enough"), t0.Add(2*time.Hour)))
}

func saveConflict(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 3)...)
	moved := make([]task.Task, 3)
	for i := range rows {
		moved[i] = value[task.Task](t)(transition.Move(rows[i], t0.Add(time.Hour), t0))
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, moved[:1]...)) })
	err := worldtest.Save(t.Context(), s, begin(t, s), moved...)
	if !errors.Is(err, store.ErrConflict) || !s.Retryable(err) {
		t.Errorf("Save over a newer version: %v, want a retryable ErrConflict", err)
	}
}

func saveMany(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 250)...)
	for i := range rows {
		if i%3 == 0 {
			rows[i] = value[task.Task](t)(transition.Move(rows[i], t0.Add(time.Hour), t0))
		}
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Save(ctx, s, tx, slices.DeleteFunc(slices.Clone(rows), func(r task.Task) bool { return r.Version == 1 })...))
	})
	for i := range rows {
		switch i % 4 {
		case 0:
			rows[i] = value[task.Task](t)(transition.Shift(rows[i], time.Duration(i)*time.Minute, t0.Add(time.Second)))
		case 1:
			rows[i] = transition.Fail(rows[i], errors.New("no"), time.Second, t0.Add(time.Second))
		case 2:
			rows[i] = value[task.Task](t)(transition.Cancel(rows[i], t0.Add(time.Second)))
		default:
			rows[i] = transition.Charge(rows[i], t0.Add(time.Second))
		}
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, rows...)) })
	got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows)))
	if d := cmp.Diff(rows, got); d != "" {
		t.Errorf("after Save (-want +got):\n%s", d)
	}
}

func saveShifted(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 250)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i := range rows[:120] { // their run time differs from their due time, and they must move all the same
			rows[i] = transition.Fail(rows[i], errors.New("no"), time.Duration(i)*time.Second, t0)
		}
		must(t, worldtest.Save(ctx, s, tx, rows[:120]...))
	})
	for _, by := range []time.Duration{time.Minute, -time.Second, 0} {
		for i := range rows {
			rows[i] = value[task.Task](t)(transition.Shift(rows[i], by, t0.Add(-time.Hour)))
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, rows...)) })
		if d := cmp.Diff(rows, value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows)))); d != "" {
			t.Errorf("after SaveShifted by %v (-want +got):\n%s", by, d)
		}
	}
	if err := worldtest.Save(t.Context(), s, begin(t, s), rows...); !errors.Is(err, store.ErrConflict) {
		t.Errorf("SaveShifted of a version that stands: %v, want ErrConflict", err)
	}
}

func finish(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 20)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i := range rows[:5] {
			rows[i] = transition.Charge(rows[i], t0)
		}
		must(t, worldtest.Save(ctx, s, tx, rows[:5]...))
		must(t, worldtest.Finish(ctx, s, tx, rows, t0.Add(time.Minute)))
		must(t, worldtest.Finish(ctx, s, tx, nil, t0))
	})
	want := make([]task.Task, len(rows))
	for i := range rows {
		want[i] = transition.Finish(rows[i], t0.Add(time.Minute))
	}
	if d := cmp.Diff(want, value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows)))); d != "" {
		t.Errorf("after Finish (-want +got):\n%s", d)
	}
}

func finishConflict(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 3)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0)) })
	tx := begin(t, s)
	if err := worldtest.Finish(t.Context(), s, tx, rows, t0); !errors.Is(err, store.ErrConflict) || !s.Retryable(err) {
		t.Errorf("Finish of an ended task: %v, want a retryable ErrConflict", err)
	}
	must(t, tx.Rollback())
	rows[1].Version = 2
	if err := worldtest.Finish(t.Context(), s, begin(t, s), rows[1:], t0); !errors.Is(err, store.ErrConflict) {
		t.Errorf("Finish at another version: %v, want ErrConflict", err)
	}
}

func lock(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 5)...)
	wanted := append(ids(rows), task.NewID(), rows[0].ID)
	slices.Reverse(wanted)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0))
		rows[0] = transition.Finish(rows[0], t0)
		if d := cmp.Diff(rows, value[[]task.Task](t)(s.Lock(ctx, tx, wanted))); d != "" {
			t.Errorf("Lock (-want +got):\n%s", d)
		}
		got, now, err := s.LockFree(ctx, tx, wanted)
		must(t, err)
		if d := cmp.Diff(rows, got); d != "" {
			t.Errorf("LockFree (-want +got):\n%s", d)
		}
		got, later, err := s.LockFree(ctx, tx, []task.ID{task.NewID()})
		must(t, err)
		if len(got) != 0 || now.IsZero() || later.Before(now) {
			t.Errorf("LockFree of a missing row: %v at %v, want none at %v or later", got, later, now)
		}
	})
}

func epochs(t *testing.T, s *store.Store) {
	ctx := t.Context()
	for i, step := range []struct {
		got  func() (int64, error)
		want int64
	}{
		{func() (int64, error) { return s.Current(ctx, "event") }, 0},
		{func() (int64, error) { return s.Take(ctx, "event") }, 1},
		{func() (int64, error) { return s.Take(ctx, "event") }, 2},
		{func() (int64, error) { return s.Take(ctx, "daemon") }, 1},
		{func() (int64, error) { return s.TakeAbove(ctx, "event", 40) }, 41},
		{func() (int64, error) { return s.TakeAbove(ctx, "event", 7) }, 42},
		{func() (int64, error) { return s.TakeAbove(ctx, "new", 7) }, 8},
		{func() (int64, error) { return s.Current(ctx, "event") }, 42},
	} {
		if got := value[int64](t)(step.got()); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
}

func concurrentEpochs(t *testing.T, s *store.Store) {
	const each, workers = 20, 8
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for last := int64(0); ; {
				epoch, err := s.Take(t.Context(), "event")
				mu.Lock()
				switch {
				case err != nil:
					t.Error(err)
				case epoch <= last || seen[epoch]:
					t.Errorf("epoch %d was given before", epoch)
				}
				seen[epoch], last = true, epoch
				full := err != nil || len(seen) >= each*workers
				mu.Unlock()
				if full {
					return
				}
			}
		})
	}
	wg.Wait()
}

func clock(t *testing.T, s *store.Store) {
	before := time.Now().Add(-time.Millisecond)
	var inside time.Time
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { inside = value[time.Time](t)(s.Now(ctx, tx)) })
	earlier := value[time.Time](t)(s.Now(t.Context(), nil))
	if fine, after := value[time.Time](t)(s.Clock(t.Context())), value[time.Time](t)(s.Now(t.Context(), nil)); fine.Before(earlier) || fine.After(after.Add(time.Millisecond)) {
		t.Errorf("clock %v, want it between %v and %v", fine, earlier, after)
	}
	outside := value[time.Time](t)(s.Now(t.Context(), nil))
	if inside.Before(before) || outside.Before(inside) || outside.After(time.Now().Add(time.Millisecond)) {
		t.Errorf("clock: %v, then %v, after %v", inside, outside, before)
	}
}

// foreignRow inserts a row as a service in another language does.
func foreignRow(t *testing.T, s *store.Store) {
	shard := "CRC32('ann') MOD 16"
	if s.Dialect() == store.SQLite {
		shard = "5" // SQLite has no CRC32: the service computes the shard
	}
	id := task.NewID()
	_, err := s.DB().ExecContext(t.Context(), "INSERT INTO duetime_tasks "+
		"(id, kind, owner, shard, due_at, run_at, payload, created_at, updated_at) "+
		"VALUES (?, 'meal.done', 'ann', "+shard+", ?, ?, '7', ?, ?)",
		id[:], t0.UnixMilli(), t0.UnixMilli(), t0.UnixMilli(), t0.UnixMilli())
	must(t, err)
	want := newTask(t, "ann", 0, task.WithID(id))
	want.Shard = protocol.Shard("ann", shards)
	if s.Dialect() == store.SQLite {
		want.Shard = 5
	}
	read := func() task.Task { return value[[]task.Task](t)(s.Get(t.Context(), nil, []task.ID{id}))[0] }
	if d := cmp.Diff(want, read()); d != "" {
		t.Errorf("a minimal row (-want +got):\n%s", d)
	}
	// Nobody would poll the shard, and the task would never run.
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET shard = 999"))
	if got := read().Shard; got != protocol.Shard("ann", shards) {
		t.Errorf("shard %d of a row outside the layout, want the owner's", got)
	}
}

func rolledBack(t *testing.T, s *store.Store) {
	tx := begin(t, s)
	rows := value[[]task.Task](t)(s.Insert(t.Context(), tx, newTasks(t, 2)))
	must(t, tx.Rollback())
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))); len(got) != 0 {
		t.Errorf("%d rows after a rollback", len(got))
	}
}

// lostByContext cuts a statement off by its context: SQLite then rolls the transaction back, and MySQL's driver closes
// the connection.
func lostByContext(t *testing.T, s *store.Store) {
	tx := begin(t, s)
	rows := value[[]task.Task](t)(s.Insert(t.Context(), tx, newTasks(t, 2)))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	long := "SELECT SLEEP(60)"
	if s.Dialect() == store.SQLite {
		long = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000000) SELECT COUNT(*) FROM c"
	}
	var n int
	err := tx.QueryRowxContext(ctx, long).Scan(&n)
	if err == nil {
		t.Fatal("300,000,000 were counted in 50 ms")
	}
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM duetime_tasks"); !errors.Is(err, store.ErrPoisoned) {
		t.Errorf("next statement: %v, want ErrPoisoned", err)
	}
	err = tx.Commit()
	if !errors.Is(err, store.ErrPoisoned) || s.Retryable(err) || s.Ambiguous(err) {
		t.Errorf("COMMIT: %v, want ErrPoisoned, not retryable, not ambiguous", err)
	}
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))); len(got) != 0 {
		t.Errorf("%d rows of a lost transaction", len(got))
	}
}
