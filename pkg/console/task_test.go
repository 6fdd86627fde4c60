package console

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// A task that was late shows what happened to its queue meanwhile, and one that was on time does not. A worker that had ended without a
// word before the task was due is none of it.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	at := func(seconds int, name, actor, detail string) protocol.Event {
		return protocol.Event{At: now.Add(time.Duration(seconds-60) * time.Second), Name: name, Actor: actor, Detail: detail}
	}
	row := w.due(now, -50*time.Second) // in the tenth second
	pipelinetest.Must(t, w.store.Record(ctx, nil, []protocol.Event{
		at(-140, protocol.EventDegraded, "worker 3", row.Queue),
		at(-100, protocol.EventDegraded, "worker 4", row.Queue),
		at(-100, protocol.EventDegraded, "worker 3", row.Queue),
		at(-40, protocol.EventDegraded, "worker 3", row.Queue),
		at(1, protocol.EventPaused, "ann@desk", row.Queue),
		at(2, protocol.EventResumed, "ann@desk", row.Queue),
		at(3, protocol.EventLimited, "ann@desk", row.Queue+" rate: 9/s"),
		at(4, protocol.EventLimited, "ann@desk", row.Queue+" rate: 1/s"),
		at(5, protocol.EventDegraded, "worker 1", row.Queue),
		at(6, protocol.EventDegraded, "worker 2", row.Queue),
		at(7, protocol.EventRecovered, "worker 1", row.Queue),
		at(8, protocol.EventPaused, "bob@desk", row.Queue),
		at(9, protocol.EventPaused, "bob@desk", "another"),
		at(11, protocol.EventRebuild, "bob@desk", row.Queue),
		at(20, protocol.EventResumed, "ann@desk", row.Queue),
		at(40, protocol.EventPaused, "bob@desk", row.Queue),
	}))
	seen := func(name string, want ...int) {
		t.Helper()
		life, err := w.console().Task(ctx, row.ID)
		pipelinetest.Must(t, err)
		var got []int
		for _, h := range life.Meanwhile {
			got = append(got, int(time.UnixMilli(h.AtMs).Sub(now)/time.Second)+60)
		}
		diff(t, name, want, got)
	}
	seen("pending", -40, 4, 6, 8, 20, 40)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, now.Add(-35*time.Second))
	})
	seen("done", -40, 4, 6, 8, 20)
	row = w.due(now, -45*time.Second)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, row.DueAt.Add(300*time.Millisecond))
	})
	seen("on time")
}

// A done task says how it ran, by a worker whose row is known, or is not any more; one of another program says nothing.
func TestHowATaskRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	worker := store.Process{ID: task.NewID().String(), Role: "worker", Host: "w-2", Version: "v1.42.0"}
	pipelinetest.Must(t, w.store.ReportProcess(ctx, worker, time.Hour))
	pipelinetest.Must(t, w.store.ReportProcess(ctx, store.Process{ID: "other", Role: "worker", Host: "w-3"}, time.Hour))
	row := w.due(now, -time.Second)
	pipelinetest.Must(t, w.store.EndProcess(ctx, worker))
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, now)
	})
	ran := func(number int64) *Ran {
		t.Helper()
		packed := protocol.Ran{Worker: number, Hinted: 0, Taken: ms(930), Started: ms(1), Ended: ms(15), Handler: ms(8)}.Pack()
		if number == 0 {
			packed = 0
		}
		w.store.Exec("UPDATE duetime_tasks SET ran = ? WHERE id = ?", packed, row.ID[:])
		life, err := w.console().Task(ctx, row.ID)
		pipelinetest.Must(t, err)
		return life.Ran
	}
	known := Ran{Host: "w-2", Role: "worker", Version: "v1.42.0", TakenMs: 984, StartedMs: 1, EndedMs: 15, HandlerMs: 8}
	diff(t, "by a known worker", &known, ran(protocol.WorkerNumber(worker.ID)))
	diff(t, "by a forgotten worker", &Ran{TakenMs: 984, StartedMs: 1, EndedMs: 15, HandlerMs: 8}, ran(protocol.WorkerNumber(worker.ID)^2))
	diff(t, "by another program", (*Ran)(nil), ran(0))
}

// A console shows a payload in clear with its key alone, of tasks and of recurrences.
func TestEncryptedPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	ring := func(first byte) encrypt.KeyFunc {
		return func(string) (encrypt.Key, error) {
			return encrypt.Key{ID: "k1", Secret: bytes.Repeat([]byte{first}, 32)}, nil
		}
	}
	secret := task.NewKind[string]("meal", encrypt.Payloads(ring(1)))
	c := w.console()
	made, err := c.client.Schedule(ctx, secret.New("ann", "tuna", task.In(time.Hour)))
	pipelinetest.Must(t, err)
	_, err = c.client.Recur(ctx, "daily", recur.Every(time.Hour), secret.Recurring("ann", "tuna"), recur.Policy{})
	pipelinetest.Must(t, err)
	for name, v := range map[string]struct {
		console *Console
		clear   bool
	}{"no keys": {c, false}, "its key": {c.WithKeys(ring(1)), true}, "another secret": {c.WithKeys(ring(2)), false}} {
		life, err := v.console.Task(ctx, made.ID)
		pipelinetest.Must(t, err)
		recurrence, err := v.console.Recurrence(ctx, "ann", "daily")
		pipelinetest.Must(t, err)
		for what, got := range map[string][2]string{
			"task": {life.PayloadText, string(life.Payload)}, "recurrence": {recurrence.PayloadText, string(recurrence.Payload)},
		} {
			if got[0] != got[1] || (got[0] == `"tuna"`) != v.clear || !v.clear && !strings.HasPrefix(got[0], `{"encrypted":"k1"`) {
				t.Errorf("%s of %s: %q", what, name, got)
			}
		}
	}
}
