package store_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// One row per transaction, and a hundred; each with one connection and with many.
func BenchmarkInsert(b *testing.B) {
	s, _ := openMySQLStore(b, store.Options{})
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				inserted(b, s, newTasks(b, n)...)
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
		b.Run(fmt.Sprintf("%d-parallel", n), func(b *testing.B) {
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					inserted(b, s, newTasks(b, n)...)
				}
			})
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// A worker's batch without its handlers: lock 100 rows, mark them done, commit.
func BenchmarkLockFreeFinish100(b *testing.B) {
	s, _ := openMySQLStore(b, store.Options{})
	settle := func(batch []task.Task) {
		tx := begin(b, s)
		rows, _, now, err := s.LockToRun(b.Context(), tx, ids(batch))
		must(b, err)
		must(b, worldtest.Finish(b.Context(), s, tx, rows, now))
		must(b, tx.Commit())
	}
	prepare := func(b *testing.B) [][]task.Task {
		var batches [][]task.Task
		for range b.N {
			batches = append(batches, inserted(b, s, newTasks(b, 100)...))
		}
		b.ResetTimer()
		return batches
	}
	b.Run("one", func(b *testing.B) {
		for _, batch := range prepare(b) {
			settle(batch)
		}
		b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "tasks/s")
	})
	b.Run("parallel", func(b *testing.B) {
		batches := prepare(b)
		var next atomic.Int64
		b.SetParallelism(2)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				settle(batches[next.Add(1)-1])
			}
		})
		b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "tasks/s")
	})
}

// A page of the sweep in a table of 20,000 rows due within a second of each other.
func BenchmarkPending500(b *testing.B) {
	s, _ := openMySQLStore(b, store.Options{})
	for range 20 {
		rows := newTasks(b, task.MaxPerCall)
		for i := range rows {
			rows[i].RunAt = t0.Add(time.Duration(i) * time.Millisecond)
		}
		inserted(b, s, slices.Clone(rows)...)
	}
	var after protocol.Cursor
	for b.Loop() {
		page := value[[]task.Task](b)(s.Pending(b.Context(), t0, t0.Add(time.Hour), after, 500))
		after = protocol.Cursor{}
		if len(page) == 500 {
			after = protocol.Cursor{At: page[499].RunAt, ID: page[499].ID}
		}
	}
}

// The seek of a look while a snapshot keeps the entries of 50,000 tasks that ended: from the first entry, and from the floor, which is
// asked for too.
func BenchmarkSeekWhileASnapshotIsKept(b *testing.B) {
	s, _ := openMySQLStore(b, store.Options{})
	now := value[time.Time](b)(s.Clock(b.Context()))
	worldtest.HoldSnapshot(b, s)
	endedTasks(b, s, now, 50)
	for name, floor := range map[string]func() time.Time{
		"first entry": func() time.Time { return time.Time{} },
		"floor":       func() time.Time { return value[time.Time](b)(s.Floor(b.Context())) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Pending(b.Context(), floor(), now, protocol.Cursor{}, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Moving an owner's hundred tasks together: find them, lock them, write them, commit.
func BenchmarkShiftOwner100(b *testing.B) {
	s, _ := openMySQLStore(b, store.Options{})
	const owners = 100
	for i := range owners {
		rows := newTasks(b, 100)
		for j := range rows {
			rows[j].Owner = fmt.Sprint("player-", i)
		}
		inserted(b, s, rows...)
	}
	n := 0
	for b.Loop() {
		n++
		tx := begin(b, s)
		rows, now, err := s.LockOwner(b.Context(), tx, fmt.Sprint("player-", n%owners), "")
		must(b, err)
		for i := range rows {
			rows[i], err = transition.Shift(rows[i], time.Minute, now)
			must(b, err)
		}
		must(b, worldtest.Save(b.Context(), s, tx, rows...))
		must(b, tx.Commit())
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "tasks/s")
}
