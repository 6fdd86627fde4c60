package witness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// payload is what a task of the witness carries.
type payload struct {
	Play  task.ID `json:"play"`
	Part  string  `json:"part"`
	Data  int     `json:"data"`
	Fails int     `json:"fails,omitempty"` // attempts that fail
}

// retries are quick, and go on for as long as a deployment may be ill.
var retries = []task.KindOption{
	task.Queue(protocol.WitnessQueue), task.MaxAttempts(1000), task.Retry(task.Backoff{Min: 500 * time.Millisecond, Max: 5 * time.Second}),
}

var (
	plain   = task.NewKind[payload](protocol.WitnessQueue, retries...)
	ordered = task.NewKind[payload](protocol.WitnessQueue+".ordered", append(retries, task.InOrder())...)
)

var errOnPurpose = errors.New("an attempt that fails on purpose")

// Handlers returns the handlers of the witness's tasks, for a worker of the daemon. They insert effects by the task's transaction.
func Handlers(insert func(ctx context.Context, tx sqlx.ExecerContext, e effect) error) *worker.Mux {
	mux := worker.NewMux()
	run := func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
		part := t.Payload.Part
		if _, tick, ok := t.Tick(); ok {
			part = tickPart(tick)
		}
		err := insert(ctx, tx, effect{Play: t.Payload.Play, Part: part, Due: t.DueAt, Data: t.Payload.Data})
		if err == nil && t.Attempt < t.Payload.Fails {
			err = errOnPurpose // the effect must not stay
		}
		return err
	}
	worker.Handle(mux, plain, run)
	worker.Handle(mux, ordered, run)
	return mux
}

// tickPart names the part of a tick's task.
func tickPart(tick time.Time) string { return fmt.Sprintf("tick@%d", tick.UnixMilli()) }
