package console

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/why"
	"github.com/duetime/duetime/pkg/task"
)

// lately is late, and above the floor of what was read before: other programs' rows of long ago are found a little later.
const lately = -4 * time.Second

// report writes the row of a worker of the queue default, as if it had last reported itself so long ago.
func (w *world) report(age time.Duration, calls ...protocol.Call) {
	w.t.Helper()
	p := store.Process{
		ID: task.NewID().String(), Role: "worker", Host: "here", Version: "1",
		Detail: store.ProcessDetail{PID: 7, Queues: []string{"default"}, Kinds: []string{kind.Name()}, Calls: calls},
	}
	pipelinetest.Must(w.t, w.store.ReportProcess(w.t.Context(), p, 0))
	w.store.Exec("UPDATE duetime_processes SET seen_at = seen_at - ? WHERE id = ?", age.Milliseconds(), p.ID)
}

// live reports a worker that reported itself just now, in place of all others: a slow test must not find it silent.
func (w *world) live(calls ...protocol.Call) {
	w.t.Helper()
	w.store.Exec("DELETE FROM duetime_processes")
	w.report(-store.ProcessAlive/2, calls...)
}

func (w *world) finish(row task.Task, at time.Time) {
	w.t.Helper()
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, at)
	})
}

func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	return now
}

// wantWhy wants the first answer's rule, and these values of its evidence. Before each try, and there are more where a slow server has
// kept a part from being read, it renews rows that age.
func (w *world) wantWhy(c *Console, rule string, evidence map[string]any, renew ...func()) {
	w.t.Helper()
	var said Explanation
	pipelinetest.Await(w.t, "all to be read", func() bool {
		for _, do := range renew {
			do()
		}
		var err error
		said, err = c.Why(w.t.Context())
		pipelinetest.Must(w.t, err)
		return len(said.Unread) == 0
	})
	w.wantAnswer(said, rule, evidence)
}

// ask asks about a task.
func (w *world) ask(c *Console, id task.ID) (Explanation, error) {
	w.t.Helper()
	all, err := c.Why(w.t.Context())
	pipelinetest.Must(w.t, err)
	return all.Task(w.t.Context(), id)
}

func (w *world) wantAnswer(said Explanation, rule string, evidence map[string]any) {
	w.t.Helper()
	got := said.Answers[0]
	if got.Rule != rule {
		w.t.Errorf("got %s: %s %v, want %s; not read: %v", got.Rule, got.Sentence, got.Evidence, rule, said.Unread)
	}
	for name, want := range evidence {
		diff(w.t, rule+": "+name, want, got.Evidence[name])
	}
}

// The facts are read from the rows of a real database: each fault that rows can have gets its answer.
func TestWhyReadsTheRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx, now := w.console(), t.Context(), w.now()
	w.wantWhy(c, "on-time", nil)

	late := w.due(w.now(), lately)
	w.wantWhy(c, "no-worker", map[string]any{"queue": "default", "kind": "meal", "tasks": int64(1)})
	w.report(40 * time.Second)
	w.wantWhy(c, "no-worker", map[string]any{"worker": "worker here/7"})
	live := func() { w.live() }
	w.wantWhy(c, "worker-silent", map[string]any{"tasks": int64(1), "living": 1}, live, func() { w.report(40 * time.Second) })
	w.wantWhy(c, "unexplained", map[string]any{"tasks": int64(1)}, live)

	_, err := c.Pause(ctx, "default")
	pipelinetest.Must(t, err)
	w.wantWhy(c, "paused", map[string]any{"queue": "default", "tasks": int64(1)})
	_, err = c.Resume(ctx, "default")
	pipelinetest.Must(t, err)

	pipelinetest.Must(t, c.SetLimits(ctx, "default", LimitRate(&task.Rate{Calls: 1, Per: time.Minute})))
	w.wantWhy(c, "unexplained", nil, live) // nothing waits for the limit
	w.wantWhy(c, "limited", map[string]any{"limit": "1/m"}, live, func() {
		w.store.Exec("UPDATE duetime_limits SET limited_at = ?", w.now().Add(2*time.Second).UnixMilli())
	})
	w.store.Exec("DELETE FROM duetime_limits")

	ended := w.due(w.now(), lately)
	w.finish(ended, w.now())
	w.wantWhy(c, "behind", map[string]any{"tasks": int64(1), "due": int64(1)}, live, func() {
		at := w.now().Add(5 * time.Second).UnixMilli()
		w.store.Exec("UPDATE duetime_tasks SET finished_at = ?, updated_at = ? WHERE id = ?", at, at, ended.ID[:])
	})
	at := w.now().UnixMilli()
	w.store.Exec("UPDATE duetime_tasks SET finished_at = ?, updated_at = ? WHERE id = ?", at, at, ended.ID[:]) // no longer in the time to come
	w.finish(late, w.now())
	w.wantWhy(c, "was-late", map[string]any{"were_late": int64(2)}, live)

	w.wantWhy(c, "worker-stuck", map[string]any{"task": late.ID.String(), "tasks": 2, "limit_ms": int64(1000)}, func() {
		w.live(protocol.Call{Kind: "meal", Task: late.ID, Tasks: 2, SinceMs: now.Add(-time.Hour).UnixMilli(), LimitMs: 1000})
	})

	pipelinetest.Must(t, w.store.Record(ctx, nil, []protocol.Event{
		{At: w.now(), Name: protocol.EventDegraded, Actor: "worker 1", Detail: "default"},
	}))
	w.wantWhy(c, "degraded", map[string]any{"queue": "default", "workers": 1}, live)
	w.store.Exec("DELETE FROM duetime_history")

	odd := w.due(w.now(), lately)
	w.store.Exec("UPDATE duetime_tasks SET kind = 'maal' WHERE id = ?", odd.ID[:])
	w.wantWhy(c, "unknown-kind", map[string]any{"kind": "maal", "tasks": int64(1)}, live)
	w.store.Exec("DELETE FROM duetime_tasks WHERE state = 0")

	ahead := w.due(w.now(), 40*time.Minute)
	w.store.Exec("UPDATE duetime_tasks SET kind = 'maal' WHERE id = ?", ahead.ID[:])
	w.wantWhy(c, "unknown-kind", map[string]any{"kind": "maal", "tasks": int64(1), "span_ms": time.Hour.Milliseconds()}, live)
	w.store.Exec("UPDATE duetime_tasks SET queue = 'mails' WHERE id = ?", ahead.ID[:])
	w.wantWhy(c, "no-worker", map[string]any{"queue": "mails", "tasks": int64(1)}, live)
	w.store.Exec("UPDATE duetime_tasks SET queue = ? WHERE id = ?", protocol.WitnessQueue, ahead.ID[:]) // the daemon runs it
	w.wantWhy(c, "was-late", nil, live)
	w.store.Exec("DELETE FROM duetime_tasks WHERE state = 0")

	w.dead()
	w.dead()
	w.wantWhy(c, "dying", map[string]any{"kind": "meal", "error": "sick", "tasks": int64(2)})
}

// Many due tasks of a paused queue don't hide the late one of another queue.
func TestWhyLooksBehindCrowds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now().UnixMilli()
	w.store.Exec("INSERT INTO duetime_tasks (id, kind, owner, queue, due_at, run_at, payload, created_at, updated_at) SELECT UNHEX(LPAD(HEX(seq), 32, '0')),"+
		" 'mail', 'ann', 'mails', ? - seq, ? - seq, '7', 0, 0 FROM "+pipelinetest.Numbers(1, 30_000), now, now)
	_, err := w.console().Pause(t.Context(), "mails")
	pipelinetest.Must(t, err)
	w.due(w.now(), lately)
	var said Explanation
	pipelinetest.Await(t, "the late task to be found", func() bool {
		said, err = w.console().Why(t.Context())
		pipelinetest.Must(t, err)
		return len(said.Unread) == 0 && said.Answers[0].Tasks == 1
	})
	w.wantAnswer(said, "no-worker", map[string]any{"queue": "default", "kind": "meal"})
	said.Answers = said.Answers[1:]
	w.wantAnswer(said, "paused", map[string]any{"queue": "mails"})

	odd := w.due(w.now(), lately)
	w.store.Exec("UPDATE duetime_tasks SET kind = 'maal' WHERE id = ?", odd.ID[:])
	pipelinetest.Await(t, "the task that no worker handles to be found", func() bool {
		w.live()
		said, err = w.console().Why(t.Context())
		pipelinetest.Must(t, err)
		return slices.ContainsFunc(said.Answers, func(a why.Answer) bool { return a.Rule == "unknown-kind" && a.Evidence["kind"] == "maal" })
	})
}

// A handler is slow if it takes longer now than on the day before.
func TestWhyOfASlowHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	w.due(w.now(), lately)
	for i := range 9 {
		row := w.due(now, -2*time.Hour)
		took, at := 8*time.Millisecond, now.Add(-time.Hour)
		if i%2 == 0 && i < 8 {
			took, at = 700*time.Millisecond, w.now()
		}
		w.finish(row, at)
		w.store.Exec("UPDATE duetime_tasks SET ran = ?, updated_at = ? WHERE id = ?", protocol.Ran{Worker: 1, Handler: took}.Pack(), at.UnixMilli(), row.ID[:])
	}
	w.wantWhy(w.console(), "slow-handler", map[string]any{"kind": "meal", "before_ms": int64(8)}, func() {
		w.live()
		at := w.now().UnixMilli()
		w.store.Exec("UPDATE duetime_tasks SET finished_at = ?, updated_at = ? WHERE state = 1 AND finished_at > ?", at, at, now.UnixMilli())
	})
}

// A server that does not answer is an answer, and so is MySQL itself.
func TestWhyAsksTheServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.console()
	refused := errors.New("refused")
	c.cfg.Servers = map[string]func(context.Context) error{
		why.Kafka: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		why.Redis: func(context.Context) error { return refused },
	}
	w.wantWhy(c, "kafka-away", map[string]any{"error": "no answer within 2s"})
	delete(c.cfg.Servers, why.Kafka)
	w.wantWhy(c, "redis-away", map[string]any{"error": "refused"})

	server := pipelinetest.OwnMySQL(t)
	own := &world{t, worldtest.OpenStore(t, server.NewSchema(t), store.Options{})}
	for how, stop := range map[string]func() error{"frozen": server.Freeze, "stopped": server.Kill} {
		pipelinetest.Must(t, stop())
		own.wantWhy(own.console(), "mysql-away", nil)
		said, err := own.ask(own.console(), task.NewID())
		if err != nil || said.Answers[0].Rule != "mysql-away" {
			t.Errorf("%s: of a task: %v, %v", how, said, err)
		}
		pipelinetest.Must(t, server.Kill())
		pipelinetest.Must(t, server.Start())
	}
}

// A task says what it waits for.
func TestWhyOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, now := w.console(), w.now()
	want := func(id task.ID, rule string, evidence map[string]any) {
		t.Helper()
		said, err := w.ask(c, id)
		pipelinetest.Must(t, err)
		w.wantAnswer(said, rule, evidence)
	}
	if _, err := w.ask(c, task.NewID()); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("a task that is not there: %v", err)
	}
	want(w.pending().ID, "task-not-due", nil)
	want(w.dead().ID, "task-dead", map[string]any{"error": "sick", "attempt": 3})
	one := w.due(w.now(), lately)
	want(one.ID, "no-worker", nil)
	w.live(protocol.Call{Kind: "meal", Task: one.ID, Tasks: 1, SinceMs: now.UnixMilli(), LimitMs: 10_000_000})
	want(one.ID, "task-runs", map[string]any{"worker": "worker here/7"})
	w.finish(one, one.DueAt.Add(time.Millisecond))
	want(one.ID, "task-done", map[string]any{"lag_ms": int64(1)})

	head, behind := w.pending(), w.pending()
	w.store.Exec("UPDATE duetime_tasks SET order_key = 'ko', last_error = ? WHERE id IN (?, ?)", "never run: waits for task "+head.ID.String(),
		head.ID[:], behind.ID[:])
	w.store.Exec("INSERT INTO duetime_orders (task_id, order_key, due_at) SELECT id, 'ko', due_at + (id = ?) FROM duetime_tasks WHERE id IN (?, ?)",
		behind.ID[:], head.ID[:], behind.ID[:])
	want(behind.ID, "task-behind", map[string]any{"head": head.ID.String()})
}
