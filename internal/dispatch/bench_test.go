package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// sink is a stream that takes every hint.
type sink struct{}

func (sink) Publish(context.Context, []protocol.Entry, int64) []error { return nil }
func (sink) Compensate(context.Context, protocol.Compensation) error  { return nil }

// BenchmarkPass claims, publishes to a sink and acknowledges 500 entries per operation. Putting them is not measured.
func BenchmarkPass(b *testing.B) {
	b.Run("redis", func(b *testing.B) { benchmarkPass(b, pipelinetest.Redis(b).Addr()) })
	b.Run("miniredis", func(b *testing.B) { benchmarkPass(b, worldtest.Memory(b).Addr()) })
}

func benchmarkPass(b *testing.B, addr string) {
	w := newWorld(b, addr, Config{})
	w.Dispatcher.stream = sink{}
	s := w.shard(0, 1, nil)
	tasks := make([]task.Task, 500)
	for b.Loop() {
		b.StopTimer()
		for i := range tasks {
			tasks[i] = pending("default", base.Add(-time.Duration(i)*time.Millisecond))
		}
		pipelinetest.Must(b, w.index.Put(b.Context(), tasks))
		b.StartTimer()
		pass(b, s)
		pass(b, s)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(tasks)), "µs/task")
}
