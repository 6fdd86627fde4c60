package bench_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// raw measures what Redis and Kafka do by themselves. Such limits, which duetime's figures are held against, have the works
// of those figures measure of MySQL.
func raw(w *world) {
	w.kafka()
	p := newTopic(w)
	long := w.bench.seconds(3 * time.Second)
	w.repeat(func(int) { w.record(report.RawZAdd, w.fill(4, long, w.zadd).rate()) })
	w.repeat(func(int) {
		w.record(report.RawProduce, w.fill(8, long, p.produce).rate())
		w.record(report.RawFetch, p.fetch(w, long))
	})
}

// rawInserts measure how fast rows are written.
func rawInserts(w *world) [][]step {
	s := newStatements(w)
	w.fill(64, w.bench.seconds(time.Second/2), s.insert(1)) // opens the connections
	return [][]step{
		{w.limit(report.RawInsert8, 8, 3, s.insert(1))},
		{w.limit(report.RawInsert64, 64, 3, s.insert(1))},
		{w.limit(report.RawInsert100, 8, 2, s.insert(100)), w.limit(report.RawInsert1000, 8, 2, s.insert(1000))},
	}
}

// rawUpdates measure how fast rows are moved: of each caller's, a thousand in turn.
func rawUpdates(w *world) [][]step {
	s := newStatements(w)
	swap := s.swap(w, workers)
	w.fill(workers, w.bench.seconds(time.Second), swap) // opens the connections
	return [][]step{
		{w.limit(report.RawSwap, workers, 3, swap)},
		{w.limit(report.RawSwapAlone, 1, 2, s.swap(w, 1)), w.limit(report.RawShift, 1, 2, s.shift(w))},
	}
}

// limit is a step that repeats a call in turns of a second.
func (w *world) limit(m report.Metric, callers, turns int, do call) step {
	return step{w, m, turns, func() amount { return w.fill(callers, w.bench.seconds(time.Second), do) }}
}

// beside has MySQL alone do a worker's batches, as many and four times as many. A call of the first one measures it before
// and after something else.
func beside(w *world, n int64) (around func(do func()), large func()) {
	s := newStatements(w)
	s.batches(w, warmUp)
	rest := func() { time.Sleep(w.bench.seconds(3 * time.Second)) } // an index still drops what was done
	around = func(do func()) {
		before := s.batches(w, n)
		do()
		rest()
		w.record(report.RawBatch, (before+s.batches(w, n))/2)
	}
	large = func() {
		rest()
		w.record(report.RawBatchLarge, s.batches(w, 4*n))
		rest()
	}
	return around, large
}

// call does something once and tells how much it was.
type call func(ctx context.Context, caller int) (int, error)

// fill repeats a call for so long from so many callers.
func (w *world) fill(callers int, long time.Duration, do call) amount {
	w.Helper()
	var made atomic.Int64
	group, ctx := errgroup.WithContext(w.Context())
	began := time.Now()
	for caller := range callers {
		group.Go(func() error {
			for time.Since(began) < long {
				n, err := do(ctx, caller)
				if err != nil {
					return err
				}
				made.Add(int64(n))
			}
			return nil
		})
	}
	pipelinetest.Must(w, group.Wait())
	return amount{made.Load(), time.Since(began)}
}

// zadd adds a pipeline of 100 members, as long as those of the index, to 16 sets in turn.
func (w *world) zadd(ctx context.Context, caller int) (int, error) {
	pipe := w.redis.Pipeline()
	due := time.Now().Add(farOff).UnixMilli()
	for i := range 100 {
		id := task.NewID()
		member := string(id[:]) + "pet.meal\x1f\x1f1234567\x1f1234567"
		pipe.ZAdd(ctx, "bench:"+string(rune('a'+(caller*4+i)%16)), redis.Z{Score: float64(due + int64(i)), Member: member})
	}
	_, err := pipe.Exec(ctx)
	return 100, err
}
