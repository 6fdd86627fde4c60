package console

import (
	"context"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Ran is how the last try of a done task went. The four steps follow each other from the try's moment to just before COMMIT, which took
// the rest: a few milliseconds on a healthy server. They are exact to a millisecond below 16 ms, and to about 6 % from there on. Tasks
// that ran in one transaction share the moments of the last three.
type Ran struct {
	Host      string `json:"host,omitempty"` // of the worker; empty if its row is gone
	Role      string `json:"role,omitempty"`
	Version   string `json:"version,omitempty"`
	HintedMs  int64  `json:"hinted_ms"`  // until the worker had a hint of it; 0 if it had one ahead
	TakenMs   int64  `json:"taken_ms"`   // then it waited for a runner, a limit, or an earlier task
	StartedMs int64  `json:"started_ms"` // then rows were locked
	EndedMs   int64  `json:"ended_ms"`   // then handlers ran, its own among them, and it was marked done
	HandlerMs int64  `json:"handler_ms"` // its own handler's call
}

// ran reads how a done task's last try went; nil if its row does not say.
func (c *Console) ran(ctx context.Context, row task.Task) (*Ran, error) {
	packed, known := protocol.UnpackRan(row.Ran)
	if !known || row.State != task.Done {
		return nil, nil //nolint:nilnil // It is not known.
	}
	worker, _, err := c.store.WorkerOf(ctx, packed.Worker, row.FinishedAt)
	if err != nil {
		return nil, err
	}
	moment := row.RunAt
	if row.CreatedAt.After(moment) {
		moment = row.CreatedAt
	}
	packed.Fit(row.FinishedAt.Sub(moment))
	return &Ran{
		worker.Host, worker.Role, worker.Version, packed.Hinted.Milliseconds(), packed.Taken.Milliseconds(), packed.Started.Milliseconds(),
		packed.Ended.Milliseconds(), packed.Handler.Milliseconds(),
	}, nil
}

// Steps are the four steps in their order, in milliseconds.
func (r Ran) Steps() [4]int64 { return [4]int64{r.HintedMs, r.TakenMs, r.StartedMs, r.EndedMs} }
