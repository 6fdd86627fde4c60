package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/duetime/duetime/pkg/worker"
)

// BenchmarkSettle is one batch of 100 through the worker's transaction, by single handlers that write a row each and by
// one batch handler that writes all in one statement.
func BenchmarkSettle(b *testing.B) {
	single, batch := worker.NewMux(), worker.NewMux()
	worker.Handle(single, meal, effect)
	worker.HandleBatch(batch, meal, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
		args := make([]any, 0, 2*len(ts))
		for _, t := range ts {
			args = append(args, t.ID.String(), t.Payload.Word)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (task_id, word) VALUES "+strings.Repeat("(?,?),", len(ts)-1)+"(?,?)", args...)
		return err
	})
	for name, mux := range map[string]*worker.Mux{"single": single, "batch": batch} {
		b.Run(name, func(b *testing.B) {
			w := onMySQL(b)
			wk := w.worker(mux, worker.Config{})
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				tasks := w.due(meal, 100)
				b.StartTimer()
				for _, o := range w.pass(wk, tasks...) {
					want(b, "result", o.Result, "done")
				}
			}
			b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
