package stream_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// BenchmarkKafka measures the time from Publish to the consumer's Fetch, for several numbers of entries in a call.
func BenchmarkKafka(b *testing.B) {
	addr := pipelinetest.Kafka(b).Addr()
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("publish=%d", n), func(b *testing.B) { benchmarkKafka(b, addr, n) })
	}
}

func benchmarkKafka(b *testing.B, addr string, n int) {
	k, err := stream.NewKafka(stream.Config{Namespace: pipelinetest.Namespace(b), Brokers: []string{addr}})
	pipelinetest.Must(b, err)
	defer func() { _ = k.Close() }()
	ctx, cancel := context.WithCancel(b.Context())
	got, done := make(chan int, 1000), make(chan error, 1)
	joined, isJoined := context.WithCancel(ctx)
	go func() {
		done <- k.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
			isJoined()
			for {
				ds, err := s.Fetch(ctx)
				if err != nil {
					return nil //nolint:nilerr // the session is over
				}
				got <- len(ds)
				_ = s.Commit(ctx, next(ds))
			}
		})
	}()
	defer func() { cancel(); <-done }() //nolint:errcheck // a benchmark
	<-joined.Done()
	entries := make([]protocol.Entry, n)
	for i := range entries {
		entries[i] = entry(fmt.Sprintf("owner-%d", i), i)
	}
	var acked, fetched []time.Duration
	for b.Loop() {
		begun := time.Now()
		for k.Publish(ctx, entries, 1) != nil {
			continue
		}
		acked = append(acked, time.Since(begun))
		for seen := 0; seen < n; {
			seen += <-got
		}
		fetched = append(fetched, time.Since(begun))
	}
	for name, ds := range map[string][]time.Duration{"ack": acked, "fetch": fetched} {
		slices.Sort(ds)
		b.ReportMetric(float64(ds[len(ds)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(ds[len(ds)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
}
