package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// BenchmarkSweep compares 20,000 rows with sets that hold them all: the cost of an audit that finds no drift.
func BenchmarkSweep(b *testing.B) {
	w := newWorld(b, Config{AuditRate: 20_000})
	const n = 20_000
	for i := range n / page {
		tasks := make([]task.Task, page)
		for j := range tasks {
			tasks[j] = pending(fmt.Sprint("owner", (i*page+j)/4), time.Hour+time.Duration(i*page+j)*time.Second)
		}
		rows, err := w.rows.Insert(b.Context(), w.rows.DB(), tasks)
		pipelinetest.Must(b, err)
		w.put(b, rows...)
	}
	rate := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/row") }
	b.Run("rows", func(b *testing.B) {
		for b.Loop() {
			a := w.auditRows()
			w.run(b, a.pass)
		}
		rate(b)
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			a := w.auditIndex()
			w.run(b, a.pass)
		}
		rate(b)
	})
	b.Run("rebuild", func(b *testing.B) {
		for b.Loop() {
			w.flush(b)
			w.run(b, new(rebuild).pass)
		}
		rate(b)
	})
}
