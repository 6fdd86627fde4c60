package embedded_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

// A pipeline's console knows its queues, rows and index.
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
		if err := c.CheckQueue("slow"); err != nil {
			t.Error(err)
		}
		verified, err := c.Verify(ctx)
		pipelinetest.Must(t, err)
		if verified.Broken() || len(verified) < 10 {
			t.Errorf("got %+v", verified)
		}
		pipelinetest.Await(t, "16 rebuilt shards", func() bool {
			shards, err := c.Shards(ctx)
			pipelinetest.Must(t, err)
			unfinished := func(s console.Shard) bool { return s.Marker != console.MarkerComplete }
			return len(shards) == 16 && !slices.ContainsFunc(shards, unfinished)
		})
	})
}
