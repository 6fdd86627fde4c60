package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// decoding is a codec that leaves payloads as they are, and whose Decode may fail in any way.
type decoding func(payload string) error

func (decoding) Encode(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

func (d decoding) Decode(_, _ string, payload []byte) ([]byte, error) {
	return payload, d(string(payload))
}

func (d decoding) kind(name string, opts ...task.KindOption) task.Kind[payload] {
	return task.NewKind[payload](name, append(opts, func(k *task.KindInfo) { k.Codec = d })...)
}

// A payload whose decoding panics, or answers that the task is to be discarded, is a failed attempt of its task alone.
func TestDecodingThatFails(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		by := decoding(func(payload string) error {
			switch {
			case strings.Contains(payload, `"1"`):
				panic("no such field")
			case strings.Contains(payload, `"2"`):
				return worker.Discard(errSick)
			}
			return nil
		})
		single, batch := by.kind("single", task.MaxAttempts(1)), by.kind("batch", task.MaxAttempts(1))
		mux := worker.NewMux()
		worker.Handle(mux, single, effect)
		worker.HandleBatch(mux, batch, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
			for _, tk := range ts {
				if err := effect(ctx, tx, tk); err != nil {
					return err
				}
			}
			return nil
		})
		read := w.due(single, 2)[1]
		got := w.fresh(w.reads(mux, engine.Config{}), read.Owner)
		if err := got.Failed[read.ID]; err == nil || !strings.Contains(err.Error(), "no such field") || w.store.Row(read.ID).Attempt != 0 {
			t.Errorf("settled %+v of %+v, want it failed and uncharged", got, w.store.Row(read.ID))
		}
		wk := w.worker(mux, engine.Config{})
		for _, kind := range []task.Kind[payload]{single, batch} {
			made := w.due(kind, 4)
			got := w.passAll(wk, made...)
			for i, result := range []string{"done", "dead", "dead", "done"} {
				want(t, kind.Name()+": result", got[made[i].ID].Result, result)
				want(t, kind.Name()+": effects", w.effects(made[i].ID), map[string]int{"done": 1}[result])
			}
			contains(t, kind.Name(), w.store.Row(made[1].ID).LastError, "no such field")
			contains(t, kind.Name(), w.store.Row(made[2].ID).LastError, errSick.Error())
		}
	})
}

// A payload whose decoding hangs ends with the kind's time. A suspect is charged before, and an outside handler is not called
// too late.
func TestDecodingThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free, charged := make(chan struct{}), make(chan int, 10)
	kind := decoding(func(string) error {
		charged <- w.store.Number("SELECT attempt FROM duetime_tasks")
		<-free
		return nil
	}).kind("mail", task.MaxAttempts(1), task.Timeout(hastyTime))
	mux := worker.NewMux()
	worker.HandleOutside(mux, kind, func(context.Context, worker.Task[payload]) error {
		t.Error("called after its time")
		return nil
	})
	made := w.due(kind, 1)[0]
	w.publish(made) // before the worker joins: a suspect
	wk := w.worker(mux, engine.Config{HandlerTimeout: limit})
	stop := w.run(wk)
	want(t, "attempts while it is decoded", <-charged, 1)
	pipelinetest.Await(t, "dead", func() bool { return w.store.Row(made.ID).State == task.Dead })
	contains(t, "error on the row", w.store.Row(made.ID).LastError, "the timeout of kind mail")
	close(free)
	pipelinetest.Await(t, "it comes back", func() bool { return len(wk.Calls()) == 0 })
	want(t, "stop", stop(), nil)
}
