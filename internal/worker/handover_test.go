package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A partition is lost while a handler runs: that may yet end the process, so whoever gets the partition has suspects.
func TestPartitionThatIsLostWithAHandlerRunningIsSuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running, proceed := make(chan struct{}), make(chan struct{})
	mux := worker.NewMux()
	worker.HandleOutside(mux, meal, func(_ context.Context, tk worker.Task[payload]) error {
		if tk.Payload.Word == "0" {
			close(running)
			<-proceed
		}
		return nil
	})
	slow := w.dueIn(meal, 1, 500*time.Millisecond)
	heard := &listening{Store: w.store}
	stop := w.run(w.workerOn(heard, mux, engine.Config{HandlerTimeout: limit}))
	w.publish(slow...)
	<-running
	want(t, "left before", heard.left.Load(), 0)
	stopSecond := w.run(w.workerOn(heard, mux, engine.Config{})) // partitions move
	pipelinetest.Await(t, "all three partitions are taken anew", func() bool { return heard.taken.Load() == 6 })
	want(t, "left with nothing running", heard.left.Load(), 2)
	close(proceed)
	want(t, "stop", errors.Join(stopSecond(), stop()), nil)
	pipelinetest.Await(t, "all are left", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_handovers WHERE left_at > 0") == 3
	})
}

// Found tasks whose messages came wait for their queue's rate as the worker stops. Nothing runs: all partitions are handed over.
func TestFoundTasksThatWaitAreHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 12
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	heard := &accepting{log: w.log}
	wk, err := engine.New(engine.Config{
		Late: soon, Metrics: w.reg, Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: 1, Per: time.Hour}}},
	}, mux, w.store, heard, w.index, w.log)
	pipelinetest.Must(t, err)
	stop := w.run(wk)
	tasks := w.due(meal, n)
	pipelinetest.Await(t, "all are found", func() bool { return w.found("late")+w.found("anybodys") >= n })
	w.publish(tasks...)
	pipelinetest.Await(t, "all messages are held", func() bool { return heard.accepted.Load() == n })
	want(t, "stop", stop(), nil)
	want(t, "partitions left in good order", w.store.Number("SELECT COUNT(*) FROM duetime_handovers WHERE left_at > 0"), 3)
}

// accepting is a stream that counts the messages that a worker has accepted.
type accepting struct {
	log      *stream.Kafka
	accepted atomic.Int64
}

func (a *accepting) Consume(ctx context.Context, queue string, fn func(context.Context, protocol.Session) error) error {
	return a.log.Consume(ctx, queue, func(ctx context.Context, s protocol.Session) error {
		return fn(ctx, &acceptingSession{Session: s, of: a})
	})
}

type acceptingSession struct {
	protocol.Session
	of   *accepting
	last int // messages of the last Fetch
}

// Fetch is called once the messages of the last call are accepted.
func (s *acceptingSession) Fetch(ctx context.Context) ([]protocol.Delivery, error) {
	s.of.accepted.Add(int64(s.last))
	ds, err := s.Session.Fetch(ctx)
	s.last = len(ds)
	return ds, err
}

// listening is a store that counts the partitions that workers take over, and those that were left in good order.
type listening struct {
	engine.Store
	taken, left atomic.Int64
}

func (l *listening) TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	left, err := l.Store.TakeOver(ctx, queue, holder, parts)
	l.left.Add(int64(len(left)))
	l.taken.Add(int64(len(parts)))
	return left, err
}
