package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var push = task.NewKind[int]("push.send", task.Queue("pushes"))

// service is a client that knows the queue default alone.
func (w *world) service() *schedule.Client {
	w.t.Helper()
	client, err := schedule.New(schedule.Config{Kinds: kinds.New([]string{"default"})}, w.store, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { client.Close(context.Background()) })
	return client
}

func TestAddAndRetireQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.console(), t.Context()
	refused := func(err error, says string) {
		t.Helper()
		var field *task.FieldError
		if !errors.As(err, &field) || field.Field != "queue" || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want a refusal: %s", err, says)
		}
	}
	for _, want := range []bool{true, false} {
		added, err := c.AddQueue(ctx, "pushes")
		if pipelinetest.Must(t, err); added != want {
			t.Errorf("added %v, want %v", added, want)
		}
	}
	for name, says := range map[string]string{
		"pu.shes!": "must", "compensate": "own consumer group", "duetime_witness": "witness", "": "must",
	} {
		_, err := c.AddQueue(ctx, name)
		refused(err, says)
	}
	_, err := c.AddQueue(ctx, "a.b")
	pipelinetest.Must(t, err)
	_, err = c.AddQueue(ctx, "a_b")
	refused(err, "only in . and _")
	names, err := c.QueueNames(ctx)
	if pipelinetest.Must(t, err); !slices.Equal(names, []string{"a.b", "default", "mails", "pushes"}) {
		t.Errorf("queues %v", names)
	}
	pipelinetest.Must(t, c.CheckQueue(ctx, "pushes"))
	refused(c.CheckQueue(ctx, "elsewhere"), "none of the deployment's: a.b, default, mails, pushes")
	_, err = c.Pause(ctx, "pushes")
	pipelinetest.Must(t, err)
	made, err := w.service().Schedule(ctx, push.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	var used *QueueUsedError
	if err := c.RetireQueue(ctx, "pushes"); !errors.As(err, &used) || used.Uses != (QueueUses{Pending: 1}) || !strings.Contains(err.Error(), "1 pending task") {
		t.Errorf("got %v, want a refusal with one pending task", err)
	}
	_, err = w.service().Cancel(ctx, made.ID)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, c.RetireQueue(ctx, "pushes"))
	refused(c.RetireQueue(ctx, "pushes"), "was not added")
	refused(c.RetireQueue(ctx, "mails"), "is of the configuration")
	all, err := c.Queues(ctx)
	pipelinetest.Must(t, err)
	var lines []string
	for _, q := range all {
		if q.Added {
			q.Queue += " added"
		}
		lines = append(lines, q.Queue)
	}
	if !slices.Equal(lines, []string{"a.b added", "default", "mails"}) {
		t.Errorf("queues %v", lines)
	}
	_, err = w.service().Schedule(ctx, push.New("ann", 1, task.In(time.Hour)))
	refused(err, `"pushes" of kind push.send is none of the configuration's`)
	var history []string
	pipelinetest.Must(t, w.store.DB().Select(&history, "SELECT CONCAT(event, ' ', detail, ' ', actor) FROM duetime_history WHERE event IN ('added', 'retired') ORDER BY seq"))
	if !slices.Equal(history, []string{"added pushes ann@host", "added a.b ann@host", "retired pushes ann@host"}) {
		t.Errorf("history %q", history)
	}
}

// A transaction that schedules into the queue, or pauses it, and has not committed yet keeps a retirement from it, at once.
func TestRetireMeetsWhoSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.console(), t.Context()
	_, err := c.AddQueue(ctx, "pushes")
	pipelinetest.Must(t, err)
	var used *QueueUsedError
	pipelinetest.Must(t, w.service().InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, push.New("ann", 1, task.In(time.Hour))); err != nil {
			return err
		}
		if err := c.RetireQueue(ctx, "pushes"); !errors.As(err, &used) || used.Uses != (QueueUses{Held: true}) ||
			!strings.Contains(err.Error(), "used by a transaction that is under way") {
			t.Errorf("got %v, want a refusal because of the transaction", err)
		}
		return nil
	}))
	if err := c.RetireQueue(ctx, "pushes"); !errors.As(err, &used) || used.Uses != (QueueUses{Pending: 1}) {
		t.Errorf("got %v, want a refusal with one pending task", err)
	}
}

// A task that was committed after the first count is found by the second one, under the lock.
func TestRetireCountsUnderTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.console(), t.Context()
	_, err := c.AddQueue(ctx, "pushes")
	pipelinetest.Must(t, err)
	_, err = w.service().Schedule(ctx, push.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	var used *QueueUsedError
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error { return c.retire(ctx, tx, changes, "pushes") })
	if !errors.As(err, &used) || used.Uses != (QueueUses{Pending: 1}) {
		t.Errorf("got %v, want a refusal with one pending task", err)
	}
	pipelinetest.Must(t, c.CheckQueue(ctx, "pushes"))
}

// What would outlive a queue that is being retired waits, and is refused: a pause and a limit.
func TestNothingOutlivesARetirement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.console()
	for name, change := range map[string]func(ctx context.Context) error{
		"pause": func(ctx context.Context) error { _, err := c.Pause(ctx, "pushes"); return err },
		"pause until": func(ctx context.Context) error {
			_, err := c.PauseUntil(ctx, PauseOf{Queue: "pushes", Owner: "ann"}, task.In(time.Hour))
			return err
		},
		"limit": func(ctx context.Context) error { return c.SetLimits(ctx, "pushes", LimitConcurrency(new(3))) },
	} {
		_, err := c.AddQueue(t.Context(), "pushes")
		pipelinetest.Must(t, err)
		answer := make(chan error, 1)
		w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
			found, held, err := w.store.LockQueue(ctx, tx, "pushes")
			if err != nil || !found || held {
				t.Errorf("lock: %v, %v, %v", found, held, err)
			}
			go func() { answer <- change(ctx) }()
			pipelinetest.Await(t, "the change to wait", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
			return w.store.ForgetQueue(ctx, tx, "pushes")
		})
		var field *task.FieldError
		if err := <-answer; !errors.As(err, &field) || field.Field != "queue" {
			t.Errorf("%s: got %v, want a refusal of the queue", name, err)
		}
	}
	left := "SELECT (SELECT COUNT(*) FROM duetime_pauses) + (SELECT COUNT(*) FROM duetime_limits) + (SELECT COUNT(*) FROM duetime_requests)"
	if n := w.store.Number(left); n != 0 {
		t.Errorf("%d rows are left of the queue", n)
	}
}

// Who schedules while a queue is being retired waits, and is refused.
func TestWhoSchedulesWaitsForARetirement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, ctx := w.service(), t.Context()
	_, err := w.console().AddQueue(ctx, "pushes")
	pipelinetest.Must(t, err)
	answer := make(chan error, 1)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		if found, held, err := w.store.LockQueue(ctx, tx, "pushes"); err != nil || !found || held {
			t.Errorf("lock: %v, %v, %v", found, held, err)
		}
		go func() {
			_, err := client.Schedule(ctx, push.New("ann", 1, task.In(time.Hour)))
			answer <- err
		}()
		pipelinetest.Await(t, "the call to wait", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		return w.store.ForgetQueue(ctx, tx, "pushes")
	})
	var field *task.FieldError
	if err := <-answer; !errors.As(err, &field) || field.Field != "queue" {
		t.Errorf("got %v, want a refusal of the queue", err)
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 0 {
		t.Errorf("%d tasks in a queue that is no more", n)
	}
}
