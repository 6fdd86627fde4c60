package schedule_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const callersPerCPU = 32

// serviceHeap stands for what a service has in memory. In the few MB of a test the collector would run all the time, and hide what
// a call costs.
var serviceHeap []byte

// instant is a store whose statements take no time.
type instant struct{ schedule.Store }

func (instant) InsertAutocommit(_ context.Context, specs []task.Spec) ([]task.Task, error) {
	made := make([]task.Task, len(specs))
	for i, s := range specs {
		made[i] = task.Task{ID: s.ID(), Version: 1}
	}
	return made, nil
}

func (instant) ReadFree(_ context.Context, id task.ID) (task.Task, time.Time, bool, error) {
	return task.Task{ID: id, Version: 1, State: task.Pending}, time.Now(), true, nil
}

func (instant) SaveAutocommit(context.Context, task.Task) error { return nil }

func (instant) Unclear(error) bool { return false }

func benchClient(b *testing.B, store schedule.Store) *schedule.Client {
	b.Helper()
	serviceHeap = make([]byte, 64<<20)
	b.Cleanup(func() { serviceHeap = nil })
	c, err := schedule.New(schedule.Config{Logger: slog.New(slog.DiscardHandler)}, store, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(b, err)
	b.Cleanup(func() { c.Close(context.Background()) })
	b.ReportAllocs()
	return c
}

func atOnce(b *testing.B, call func() error) {
	b.Helper()
	b.SetParallelism(callersPerCPU)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkScheduleWithoutServers is what the client adds to the database's time and the index's.
func BenchmarkScheduleWithoutServers(b *testing.B) {
	c := benchClient(b, instant{})
	atOnce(b, func() error {
		_, err := c.Schedule(context.Background(), meal.New("ann", 1, task.In(time.Hour)))
		return err
	})
}

func BenchmarkSchedule(b *testing.B) {
	c := benchClient(b, newWorld(b).store)
	atOnce(b, func() error {
		_, err := c.Schedule(context.Background(), meal.New("ann", 1, task.In(time.Hour)))
		return err
	})
}

func BenchmarkShift(b *testing.B) {
	w := newWorld(b)
	c := benchClient(b, w.store)
	b.SetParallelism(callersPerCPU)
	b.RunParallel(func(pb *testing.PB) {
		made, err := w.Schedule(context.Background(), meal.New("ann", 1, task.In(time.Hour)))
		for pb.Next() && err == nil {
			_, err = c.Shift(context.Background(), made.ID, time.Second)
		}
		if err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkInTx(b *testing.B) {
	c := benchClient(b, newWorld(b).store)
	atOnce(b, func() error {
		return c.InTx(context.Background(), func(tx *schedule.Tx) error {
			_, err := tx.Schedule(context.Background(), meal.New("ann", 1, task.In(time.Hour)))
			return err
		})
	})
}
