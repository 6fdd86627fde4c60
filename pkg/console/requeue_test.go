package console_test

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// The pending tasks of the kind move, whichever queue they wait in, and no others.
func TestRequeue(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p, err := embedded.OpenMySQL(ctx, worldtest.Schema(t), embedded.Config{Queues: []string{"payments", "slow", "mails"}})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	schedule := func(kind, queue string) task.ID {
		made, err := p.Schedule(ctx, task.NewKind[Charge](kind, task.Queue(queue)).New("ada", Charge{1}, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		return made.ID
	}
	first, second, done, other := schedule("order.charge", "payments"), schedule("order.charge", "slow"),
		schedule("order.charge", "payments"), schedule("order.refund", "payments")
	mux := worker.NewMux() // of a kind that has no task
	worker.Handle(mux, task.NewKind[Charge]("order.other", task.Queue("payments")), func(context.Context, *worker.Tx, worker.Task[Charge]) error { return nil })
	stop := worldtest.Run(t, func(ctx context.Context) error { return p.Work(ctx, mux) })
	_, err = p.Cancel(ctx, done)
	pipelinetest.Must(t, err)
	c := p.Console().As("ann@host")
	for _, q := range []struct {
		kind, from string
		moved      int
	}{{"order.none", "", 0}, {"order.charge", "slow", 1}, {"order.charge", "", 1}, {"order.charge", "", 0}, {"order.charge", "mails", 0}} {
		if got, err := c.Requeue(ctx, q.kind, q.from, "mails"); got.Moved != q.moved || err != nil {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
	}
	for _, refused := range [][3]string{{"", "payments", "mails"}, {"order.charge", "", "mials"}} {
		if _, err := c.Requeue(ctx, refused[0], refused[1], refused[2]); err == nil {
			t.Errorf("%q was done", refused)
		}
	}
	for id, queue := range map[task.ID]string{first: "mails", second: "mails", done: "payments", other: "payments"} {
		life, err := c.Task(ctx, id)
		pipelinetest.Must(t, err)
		if life.Queue != queue {
			t.Errorf("task %s is in queue %s, want %s", id, life.Queue, queue)
		}
		if last := life.History[len(life.History)-1]; queue == "mails" && (last.Event != protocol.EventRequeued || last.Actor != "ann@host") {
			t.Errorf("the last line of task %s is %+v", id, last)
		}
	}
	pipelinetest.Must(t, stop())
}
