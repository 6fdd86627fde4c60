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
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Operators' reads and changes, the same on both databases.
func TestOperateConformance(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, s *store.Store){
		"pauses":                   pauses,
		"pauses until a time":      timedPauses,
		"queues that were added":   addedQueues,
		"uses of a queue":          queueUses,
		"purge of queues":          purgeQueues,
		"late purge of queues":     purgeQueuesLate,
		"paused rows":              pausedRows,
		"resignations":             resignations,
		"history":                  history,
		"history goes with its tx": historyInTx,
		"degraded workers":         degraded,
		"purge of history":         purgeHistory,
		"retry of a dead task":     retryDead,
		"retry over a taken key":   retryTaken,
		"purge spares the retried": purgeRetried,
		"filters":                  filters,
		"kinds":                    kinds,
		"suspects":                 invalidRows,
		"stuck":                    stuck,
		"list behind a cursor":     listBehind,
		"live figures":             live,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, run)
		})
	}
}

func pauses(t *testing.T, s *store.Store) {
	paused := func(want map[string]time.Time) {
		t.Helper()
		if d := cmp.Diff(want, value[map[string]time.Time](t)(s.Paused(t.Context()))); d != "" {
			t.Errorf("paused (-want +got):\n%s", d)
		}
	}
	paused(map[string]time.Time{})
	for _, want := range []bool{true, false} {
		if got := value[bool](t)(s.Pause(t.Context(), s.DB(), "mails", t0, time.Time{})); got != want {
			t.Errorf("paused anew: %v, want %v", got, want)
		}
	}
	must(t, s.Resign(t.Context(), s.DB(), "event", 3, t0))
	paused(map[string]time.Time{"mails": t0})
	for _, want := range []bool{true, false} {
		if got := value[bool](t)(s.Resume(t.Context(), s.DB(), "mails")); got != want {
			t.Errorf("resumed: %v, want %v", got, want)
		}
	}
	paused(map[string]time.Time{})
}

func resignations(t *testing.T, s *store.Store) {
	for _, want := range []int64{0, 3, 7} {
		if want > 0 {
			must(t, s.Resign(t.Context(), s.DB(), "event", want, t0))
		}
		if got := value[int64](t)(s.Resigned(t.Context(), "event")); got != want {
			t.Errorf("asked to resign up to %d, want %d", got, want)
		}
	}
	if got := value[int64](t)(s.Resigned(t.Context(), "daemon")); got != 0 {
		t.Errorf("another leader is asked to resign up to %d", got)
	}
}

func history(t *testing.T, s *store.Store) {
	id, other := task.NewID(), task.NewID()
	long := strings.Repeat("é", 1000)
	want := []protocol.Event{
		{At: t0, Task: id, Name: protocol.EventMoved, Actor: protocol.ActorService, Detail: "by -2h0m0s"},
		{At: t0.Add(time.Second), Task: id, Name: task.EventFailed, Actor: protocol.ActorWorker, Detail: "it's \\ \"over\""},
		{At: t0, Task: id, Name: task.EventDead, Actor: strings.Repeat("é", 64), Detail: strings.Repeat("é", 512)},
	}
	events := append([]protocol.Event{{At: t0, Name: protocol.EventPaused, Actor: "ann@host", Detail: "mails"}}, want...)
	events = append(events, protocol.Event{At: t0, Task: other, Name: protocol.EventCancelled})
	events[3].Actor, events[3].Detail = long, "é"+long
	must(t, s.Record(t.Context(), nil, events))
	if d := cmp.Diff(want, value[[]protocol.Event](t)(s.History(t.Context(), id, 100))); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want[1:], value[[]protocol.Event](t)(s.History(t.Context(), id, 2))); d != "" {
		t.Errorf("its newest two (-want +got):\n%s", d)
	}
	must(t, s.Record(t.Context(), nil, nil))
	many := make([]protocol.Event, 1001)
	for i := range many {
		many[i] = protocol.Event{At: t0, Task: other, Name: task.EventSnoozed}
	}
	must(t, s.Record(t.Context(), s.DB(), many))
	if got := len(value[[]protocol.Event](t)(s.History(t.Context(), other, 5000))); got != 1002 {
		t.Errorf("%d lines, want 1002", got)
	}
}

// What a worker told last counts, and for a minute and a half.
func degraded(t *testing.T, s *store.Store) {
	line := func(ago time.Duration, name, actor, queue string) protocol.Event {
		return protocol.Event{At: t0.Add(-ago), Name: name, Actor: actor, Detail: queue}
	}
	must(t, s.Record(t.Context(), nil, []protocol.Event{
		line(time.Hour, protocol.EventDegraded, "worker gone", "a"),
		line(95*time.Second, protocol.EventDegraded, "worker 1", "a"),
		line(80*time.Second, protocol.EventDegraded, "worker 2", "a"),
		line(70*time.Second, protocol.EventDegraded, "worker 3", "a"),
		line(60*time.Second, protocol.EventPaused, "ops@host", "b"),
		line(35*time.Second, protocol.EventDegraded, "worker 1", "a"),
		line(20*time.Second, protocol.EventRecovered, "worker 3", "a"),
		line(10*time.Second, protocol.EventDegraded, "worker 3", "b"),
	}))
	got := value[map[string]int](t)(s.Degraded(t.Context(), t0))
	if d := cmp.Diff(map[string]int{"a": 2, "b": 1}, got); d != "" {
		t.Errorf("degraded workers (-want +got):\n%s", d)
	}
}

func historyInTx(t *testing.T, s *store.Store) {
	id := task.NewID()
	tx := begin(t, s)
	must(t, s.Record(t.Context(), tx, []protocol.Event{{At: t0, Task: id, Name: protocol.EventMoved}}))
	must(t, tx.Rollback())
	if got := value[[]protocol.Event](t)(s.History(t.Context(), id, 1)); len(got) != 0 {
		t.Errorf("a rolled-back transaction left %v", got)
	}
}

func purgeHistory(t *testing.T, s *store.Store) {
	id := task.NewID()
	for i := range 5 {
		must(t, s.Record(t.Context(), nil, []protocol.Event{{At: t0.Add(time.Duration(i) * time.Second), Task: id, Name: protocol.EventMoved}}))
	}
	for _, want := range []int{2, 1, 0} {
		if got := value[int](t)(s.PurgeHistory(t.Context(), t0.Add(3*time.Second), 2)); got != want {
			t.Errorf("purged %d lines, want %d", got, want)
		}
	}
	if got := value[[]protocol.Event](t)(s.History(t.Context(), id, 9)); len(got) != 2 || !got[0].At.Equal(t0.Add(3*time.Second)) {
		t.Errorf("left: %v", got)
	}
}

var errSick = errors.New("sick")

// dead makes a dead task.
func dead(t *testing.T, s *store.Store, opts ...task.Option) task.Task {
	t.Helper()
	row := transition.Discard(inserted(t, s, newTask(t, "ann", 0, opts...))[0], errSick, t0)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, row)) })
	return row
}

func retryDead(t *testing.T, s *store.Store) {
	row := dead(t, s, task.Key(strings.Repeat("€", 42)+"ab"))
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, []task.ID{row.ID})); cmp.Diff([]task.Task{row}, got) != "" {
		t.Errorf("dead: %s", cmp.Diff([]task.Task{row}, got))
	}
	retried, err := transition.Retry(row, t0.Add(time.Hour))
	must(t, err)
	must(t, worldtest.Save(t.Context(), s, s.DB(), retried))
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, []task.ID{row.ID})); cmp.Diff([]task.Task{retried}, got) != "" {
		t.Errorf("retried: %s", cmp.Diff([]task.Task{retried}, got))
	}
	if err := worldtest.Save(t.Context(), s, s.DB(), retried); !errors.Is(err, store.ErrConflict) {
		t.Errorf("over a pending row: %v", err)
	}
}

func retryTaken(t *testing.T, s *store.Store) {
	row := dead(t, s, task.Key("k"))
	retried, err := transition.Retry(row, t0)
	must(t, err)
	second := dead(t, s, task.Key("k")) // the first dead task with this key doesn't block it
	if second.ID == row.ID {
		t.Fatal("the key of a dead task was not free")
	}
	inserted(t, s, newTask(t, "ann", 0, task.Key("k")))
	if err := worldtest.Save(t.Context(), s, s.DB(), retried); !errors.Is(err, task.ErrKeyTaken) {
		t.Errorf("the key is taken: %v", err)
	}
}

func purgeRetried(t *testing.T, s *store.Store) {
	row := dead(t, s)
	retried, err := transition.Retry(row, t0.Add(time.Hour))
	must(t, err)
	must(t, worldtest.Save(t.Context(), s, s.DB(), retried))
	if n := purged(t, s, t0.Add(time.Minute), 10); n != 0 {
		t.Errorf("purged %d rows", n)
	}
}

func filters(t *testing.T, s *store.Store) {
	mails := task.NewKind[int]("mail.send", task.Queue("mails"))
	row, err := mails.New("bob", 1, task.At(t0.Add(2*time.Hour))).Resolve(t0)
	must(t, err)
	all := inserted(t, s, newTask(t, "ann", time.Hour), row, newTask(t, "ann", 3*time.Hour))
	for _, c := range []struct {
		f    store.Filter
		want []task.Task
	}{
		{store.Filter{Queue: "mails"}, all[1:2]},
		{store.Filter{DueAfter: t0.Add(2 * time.Hour)}, all[1:]},
		{store.Filter{DueAfter: t0.Add(time.Hour), DueBefore: t0.Add(3 * time.Hour)}, all[:2]},
		{store.Filter{Limit: 1}, all[:1]},
	} {
		if d := cmp.Diff(c.want, value[[]task.Task](t)(s.List(t.Context(), c.f))); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.f, d)
		}
	}
}

func kinds(t *testing.T, s *store.Store) {
	row, err := task.NewKind[int]("a.kind").New("bob", 1, task.At(t0)).Resolve(t0)
	must(t, err)
	inserted(t, s, newTask(t, "ann", 0), row, newTask(t, "ann", 0))
	if d := cmp.Diff([]string{"a.kind", "meal.done"}, value[[]string](t)(s.Kinds(t.Context(), 100))); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
}

func live(t *testing.T, s *store.Store) {
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	made := func(ago, due time.Duration) task.Task {
		row, err := kind.New("ann", 1, task.At(now.Add(-due))).Resolve(now.Add(-ago))
		must(t, err)
		return row
	}
	old, lately, waiting := made(time.Hour, 30*time.Minute), made(2*time.Second, time.Second), made(time.Hour, time.Minute)
	rows := inserted(t, s, old, lately, waiting, made(time.Hour, -time.Hour))
	done := now.Add(-900 * time.Millisecond)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[1:2], done)) })
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:1], now.Add(-20*time.Minute)))
	})
	value[bool](t)(s.Pause(t.Context(), s.DB(), "default", t0, time.Time{}))
	value[int64](t)(s.Take(t.Context(), "event"))

	got := value[store.Live](t)(s.Live(t.Context(), time.Minute))
	want := store.Live{
		Now:       got.Now,
		States:    map[task.State]int64{task.Pending: 2, task.Done: 2, task.Cancelled: 0, task.Dead: 0},
		Scheduled: 1, Fired: 1, LagP50: 100 * time.Millisecond, LagP99: 100 * time.Millisecond, LagMax: 100 * time.Millisecond,
		Due: map[string]store.DueTasks{"default": {Tasks: 1, Oldest: rows[2].RunAt}}, Whole: true,
		Paused: map[string]time.Time{"default": t0}, Degraded: map[string]int{}, Epochs: map[string]int64{"event": 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("live (-want +got):\n%s", d)
	}
}
