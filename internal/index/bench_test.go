package index_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// onEachSize runs the benchmark over both servers with 100 and 1000 members of many owners, and reports tasks/s.
func onEachSize(b *testing.B, bench func(b *testing.B, x *index.Index, tasks []task.Task)) {
	b.Helper()
	for _, server := range []string{"redis", "miniredis"} {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", server, n), func(b *testing.B) {
				cfg := index.Config{Addrs: []string{pipelinetest.Redis(b).Addr()}}
				if server == "miniredis" {
					cfg = index.Config{Addrs: []string{worldtest.Memory(b).Addr()}}
				}
				tasks := make([]task.Task, n)
				for i := range tasks {
					tasks[i] = pending(fmt.Sprintf("owner-%d", i/3), int64(i), 1)
				}
				bench(b, open(b, cfg), tasks)
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}

func BenchmarkPut(b *testing.B) {
	onEachSize(b, func(b *testing.B, x *index.Index, tasks []task.Task) {
		for b.Loop() {
			for i := range tasks {
				tasks[i].Version++
			}
			put(b, x, tasks...)
		}
	})
}

// BenchmarkMoveOwner moves all tasks of one owner by the same time.
func BenchmarkMoveOwner(b *testing.B) {
	onEachSize(b, func(b *testing.B, x *index.Index, tasks []task.Task) {
		for i := range tasks {
			tasks[i] = pending("owner", int64(i), 1)
		}
		by := int64(0)
		for b.Loop() {
			by += 1000
			for i := range tasks {
				tasks[i] = moved(tasks[i], int64(i)+by, tasks[i].Version+1)
			}
			put(b, x, tasks...)
		}
	})
}

func BenchmarkDrop(b *testing.B) {
	onEachSize(b, func(b *testing.B, x *index.Index, tasks []task.Task) {
		gone := make([]task.Task, len(tasks))
		for i := range tasks {
			gone[i] = ended(tasks[i], 2)
		}
		for b.Loop() {
			b.StopTimer()
			put(b, x, tasks...)
			b.StartTimer()
			put(b, x, gone...)
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	onEachSize(b, func(b *testing.B, x *index.Index, tasks []task.Task) {
		put(b, x, tasks...)
		for b.Loop() {
			claim(b, x, 1e6, len(tasks))
		}
	})
}

func BenchmarkAck(b *testing.B) {
	onEachSize(b, func(b *testing.B, x *index.Index, tasks []task.Task) {
		claimed := entries(tasks...)
		for b.Loop() {
			b.StopTimer()
			put(b, x, tasks...)
			b.StartTimer()
			claim(b, x, 1e6, 1, claimed...)
		}
	})
}

// BenchmarkFill puts a page of a rebuild into an empty index.
func BenchmarkFill(b *testing.B) {
	onNew(b, func(x *index.Index, tasks []task.Task) error {
		_, err := x.Fill(b.Context(), tasks)
		return err
	})
}

func BenchmarkPutNew(b *testing.B) {
	onNew(b, func(x *index.Index, tasks []task.Task) error { return x.Put(b.Context(), tasks) })
}

// onNew runs the benchmark with new tasks over 16 shards, each another owner's.
func onNew(b *testing.B, bench func(*index.Index, []task.Task) error) {
	b.Helper()
	x := open(b, index.Config{Addrs: []string{pipelinetest.Redis(b).Addr()}})
	tasks := make([]task.Task, 2*task.MaxPerCall)
	for n := int64(0); b.Loop(); {
		b.StopTimer()
		for i := range tasks {
			n++
			tasks[i] = pending(strconv.FormatInt(n, 10), n, 1)
			tasks[i].Shard = i % 16
		}
		b.StartTimer()
		if err := bench(x, tasks); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(tasks))/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkIdleClaim claims from a big shard: nothing is due, a hundred thousand entries wait.
func BenchmarkIdleClaim(b *testing.B) {
	x := open(b, index.Config{Addrs: []string{pipelinetest.Redis(b).Addr()}})
	for range 100 {
		tasks := make([]task.Task, task.MaxPerCall)
		for i := range tasks {
			tasks[i] = pending(fmt.Sprintf("owner-%d", i), int64(1000+i), 1)
		}
		put(b, x, tasks...)
	}
	for b.Loop() {
		claim(b, x, 0, task.MaxPerCall)
	}
}
