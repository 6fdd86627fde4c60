package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// inOrder makes a task of an order key that is due so long after t0.
func inOrder(t testing.TB, owner, key string, d time.Duration, opts ...task.Option) task.Task {
	t.Helper()
	kind := task.NewKind[struct{}]("march", task.InOrder())
	return value[task.Task](t)(kind.New(owner, struct{}{}, task.At(t0.Add(d)), append(opts, task.OrderKey(key))...).Resolve(t0))
}

// orderRow is a row of duetime_orders.
type orderRow struct {
	Task task.ID
	Key  string
	Due  int64
}

func orderRows(t testing.TB, s *store.Store) (all []orderRow) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), "SELECT task_id, order_key, due_at FROM duetime_orders ORDER BY order_key, due_at, task_id")
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	for rows.Next() {
		var p orderRow
		var id []byte
		must(t, rows.Scan(&id, &p.Key, &p.Due))
		copy(p.Task[:], id)
		all = append(all, p)
	}
	must(t, rows.Err())
	return all
}

func orderRowOf(row task.Task) orderRow { return orderRow{row.ID, row.OrderKey, row.DueAt.UnixMilli()} }

// The rows of duetime_orders follow the tasks: at the insert, at moves, at ends, and when a dead task is to run again.
func order(t *testing.T, s *store.Store) {
	plain := newTask(t, "ann", time.Hour)
	a, b, c := inOrder(t, "ann", "city", 2*time.Second), inOrder(t, "bob", "city", time.Second), inOrder(t, "cat", "other", 0, task.Key("k"))
	rows := inserted(t, s, plain, a, b, c)
	inserted(t, s, a, c) // once more
	check := func(what string, want ...task.Task) {
		t.Helper()
		var all []orderRow
		for _, row := range want {
			all = append(all, orderRowOf(row))
		}
		if d := cmp.Diff(all, orderRows(t, s)); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	check("inserted", rows[2], rows[1], rows[3])
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, []task.ID{a.ID})); got[0].OrderKey != "kcity" {
		t.Errorf("read %+v back", got[0])
	}
	write := func(next ...task.Task) {
		t.Helper()
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, next...)) })
	}
	moved := value[task.Task](t)(transition.Move(rows[1], t0, t0))
	failed := transition.Fail(rows[2], errors.New("no"), time.Minute, t0)
	write(moved, failed)
	check("one moved, one failed", moved, failed, rows[3])
	dead := transition.Discard(failed, errors.New("no"), t0)
	write(dead, transition.Finish(rows[3], t0))
	check("one dead, one done", moved)
	again := value[task.Task](t)(transition.Retry(dead, t0.Add(time.Hour)))
	write(again)
	check("retried", moved, again)
	nobody := task.NewID()
	must(t, exec(s.DB(), "INSERT INTO duetime_orders (task_id, order_key, due_at) VALUES (?, 'kcity', 0)", nobody[:]))
	must(t, store.DropOrdersOfNobody(t.Context(), s, []task.ID{moved.ID, nobody, again.ID}))
	check("a row of nobody was dropped", moved, again)

	heads := func(of task.ID, except ...task.ID) string {
		t.Helper()
		var names []string
		found, err := s.Heads(t.Context(), s.DB(), []task.ID{of}, except)
		must(t, err)
		for _, h := range found {
			names = append(names, h.Owner)
		}
		return strings.Join(names, " ")
	}
	for what, got := range map[string][2]string{
		"the first one":       {heads(again.ID), "ann"},
		"but for that":        {heads(again.ID, moved.ID), "bob"},
		"but for both":        {heads(again.ID, moved.ID, again.ID), ""},
		"of a key that ended": {heads(c.ID), ""},
		"of no key":           {heads(plain.ID), ""},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, want %q", what, got[0], got[1])
		}
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		_, err := s.Pause(ctx, tx, "default", t0, time.Time{})
		must(t, err)
	})
	if found := value[[]protocol.Head](t)(s.Heads(t.Context(), s.DB(), []task.ID{again.ID}, nil)); !found[0].Held {
		t.Error("the queue is paused, and the head says nothing of it")
	}
	_, _, free, err := s.ReadFree(t.Context(), moved.ID)
	must(t, err)
	if free {
		t.Error("a statement of its own would leave its row of duetime_orders as it was")
	}
	spec := task.NewKind[struct{}]("march", task.InOrder()).New("ann", struct{}{}, task.In(0))
	if made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), []task.Spec{spec})); made != nil {
		t.Errorf("inserted %v without rows of duetime_orders", made)
	}
}

func dueInOrder(t *testing.T, s *store.Store) {
	first, second, later := inOrder(t, "bob", "city", 0), inOrder(t, "ann", "city", 0), inOrder(t, "ann", "city", 0)
	other := inOrder(t, "ann", "other", 0)
	for i, row := range []*task.Task{&first, &second, &other} {
		row.DueAt = ago(t, "ann", time.Minute-time.Duration(i)*time.Second).DueAt
		row.RunAt = row.DueAt
	}
	later.DueAt = time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	later.RunAt = later.DueAt
	inserted(t, s, later, second, first, other)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		due, err := s.LockDueInOrder(ctx, tx, "kcity", 0, 100)
		must(t, err)
		if d := cmp.Diff([]task.ID{first.ID, second.ID}, ids(due.Rows)); d != "" {
			t.Errorf("due (-want +got):\n%s", d)
		}
		if due, err = s.LockDueInOrder(ctx, tx, "kcity", 0, 1); err != nil || len(due.Rows) != 1 || due.Rows[0].ID != first.ID {
			t.Errorf("the first: %v, %v", due.Rows, err)
		}
		if due, err = s.LockDueInOrder(ctx, tx, "kcity", 2*time.Hour, 100); err != nil || len(due.Rows) != 3 {
			t.Errorf("soon: %v, %v", due.Rows, err)
		}
		if due, err = s.LockDueInOrder(ctx, tx, "knone", 0, 100); err != nil || len(due.Rows) != 0 || !due.Now.IsZero() {
			t.Errorf("none: %v at %v, %v", due.Rows, due.Now, err)
		}
	})
}

// The head of a key among many costs a few reads, whatever comes behind it; and it waits for no lock.
func TestPlanOfHeads(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{MaxOpen: 2})
	var all []task.Task
	for i := range 1000 {
		all = append(all, inOrder(t, "ann", "city", time.Duration(i)*time.Second))
	}
	inserted(t, s, all...)
	holder := begin(t, s)
	if _, err := s.Lock(t.Context(), holder, []task.ID{all[0].ID}); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, s)
	before := rowsNext(t, tx)
	heads, err := s.Heads(t.Context(), tx, []task.ID{all[500].ID}, []task.ID{all[500].ID})
	must(t, err)
	if n := rowsNext(t, tx) - before; n > 100 || len(heads) != 1 || heads[0].ID != all[0].ID {
		t.Errorf("read %d rows for %v", n, heads)
	}
	if n := pipelinetest.RowLocks(t, tx); n != 1 {
		t.Errorf("%d locks, want the holder's alone", n)
	}
	must(t, tx.Rollback())
	must(t, holder.Rollback())
}

// rowsNext counts the rows that the transaction's session has read by going on in an index.
func rowsNext(t *testing.T, tx *sqlx.Tx) (n int) {
	t.Helper()
	var name string
	must(t, tx.QueryRowxContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read_next'").Scan(&name, &n))
	return n
}
