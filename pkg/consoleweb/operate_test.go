package consoleweb_test

import (
	"context"
	"net/http"
	"strings"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// works runs operations until the test ends. Its worker has no kind of these tasks.
func (p *pages) works() {
	p.t.Helper()
	mux := worker.NewMux()
	worker.Handle(mux, task.NewKind[Charge]("order.other", task.Queue("payments")), func(context.Context, *worker.Tx, worker.Task[Charge]) error { return nil })
	stop := worldtest.Run(p.t, func(ctx context.Context) error { return p.p.Work(ctx, mux) })
	p.t.Cleanup(func() { pipelinetest.Must(p.t, stop()) })
}

// operates confirms a change of many tasks, waits for its operation, and returns how many tasks were changed.
func (p *pages) operates(at string) int64 {
	p.t.Helper()
	to := p.confirm(http.StatusSeeOther, at)
	all, err := p.p.Console().Operations(p.t.Context())
	pipelinetest.Must(p.t, err)
	if len(all) == 0 || !strings.Contains(to, "operation?id="+all[0].ID.String()) {
		p.t.Fatalf("%s leads to %q; the operations are %+v", at, to, all)
	}
	done, err := p.p.Console().AwaitOperation(p.t.Context(), all[0], nil)
	pipelinetest.Must(p.t, err)
	return done.Changed
}
