package batcher_test

import (
	"context"
	"sync"
	"testing"

	"github.com/duetime/duetime/internal/batcher"
)

// BenchmarkDo measures what batching costs a caller: 64 concurrent callers, calls that take no time.
func BenchmarkDo(b *testing.B) {
	shared := batcher.New(batcher.Config[[16]int]{Calls: 2, Items: 64}, func(_ context.Context, items [][16]int) ([][16]int, error) {
		return items, nil
	})
	var running sync.WaitGroup
	running.Go(func() { shared.Run(context.Background()) })
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := shared.Do(context.Background(), [16]int{}); err != nil {
				b.Error(err)
			}
		}
	})
	shared.Close()
	running.Wait()
}
