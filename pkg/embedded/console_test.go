package embedded_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

// A pipeline's console knows its queues and rows. It has no index.
func TestConsole(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		p := w.pipeline(embedded.Config{})
		w.work(p, ringing())
		c := p.Console()
		made := w.schedule(p, ring.New("ada", note{"later"}, task.In(time.Hour)))
		_, err := p.Cancel(ctx, made.ID)
		pipelinetest.Must(t, err)
		got, err := p.Get(ctx, made.ID)
		pipelinetest.Must(t, err)
		if got.State != task.Cancelled || got.Version != 2 {
			t.Errorf("got %+v, want the cancelled task", got)
		}
		if _, err := p.Get(ctx, task.NewID()); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("got %v, want %v", err, task.ErrNotFound)
		}
		page, err := c.List(ctx, console.Filter{Owner: "ada"})
		pipelinetest.Must(t, err)
		if len(page.Tasks) != 1 || page.Tasks[0].ID != made.ID {
			t.Errorf("listed %+v", page)
		}
		if err := c.CheckQueue(t.Context(), "slow"); err != nil {
			t.Error(err)
		}
		verified, err := c.Verify(ctx)
		if err == nil || verified.Broken() || len(verified) < 10 {
			t.Errorf("got %+v and %v", verified, err)
		}
		frame, err := c.Frame(ctx)
		pipelinetest.Must(t, err)
		if frame.IndexErr != nil || !frame.NoIndex || len(frame.Leaders) != 0 || len(frame.Queues) != 2 {
			t.Errorf("got %+v", frame)
		}
	})
}
