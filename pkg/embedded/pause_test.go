package embedded_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

func TestEmbeddedPipelineObeysAPause(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{})
		_, err := p.DB().ExecContext(t.Context(), "INSERT INTO duetime_requests (name, epoch, made_at) VALUES ('pause:slow', 0, 1)")
		pipelinetest.Must(t, err)
		w.work(p, ringing())
		w.schedule(p, count.New("ann", note{"paused"}, task.In(0)))
		effects := func(word string) int {
			var n int
			pipelinetest.Must(t, p.DB().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM effects WHERE word = ?", word))
			return n
		}
		w.schedule(p, ring.New("ann", note{"other"}, task.In(2*time.Second))) // by then the daemon has made many passes
		pipelinetest.Await(t, "the other queue", func() bool { return effects("other") == 1 })
		if n := effects("paused"); n != 0 {
			t.Errorf("%d effects in the paused queue", n)
		}
		_, err = p.DB().ExecContext(t.Context(), "DELETE FROM duetime_requests")
		pipelinetest.Must(t, err)
		pipelinetest.Await(t, "the paused queue", func() bool { return effects("paused") == 1 })
	})
}
