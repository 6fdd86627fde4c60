package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/pkg/task"
)

// puts is an index that notes how many tasks came in each write.
type puts struct {
	mu    sync.Mutex
	sizes []int
}

func (p *puts) Put(_ context.Context, tasks []task.Task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, len(tasks))
	return nil
}

func (p *puts) noted() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sizes)
}

// Under load many batches end in each pause, and Redis is told of all of them at once; what comes alone, or is to fire
// again, waits for nothing.
func TestTasksThatEndedAreDroppedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var index puts
		a := newAftermath(&index, nil, newMetrics(nil), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx, ctx)
		expect := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			if got := index.noted(); !slices.Equal(got, want) {
				t.Errorf("%s: writes of %v tasks, want %v", when, got, want)
			}
		}
		ended := slices.Repeat([]task.Task{{State: task.Done}}, 10)
		a.Put(ended)
		expect("the first", 10)
		for range 5 {
			a.Put(ended)
			time.Sleep(time.Millisecond)
		}
		expect("right behind it", 10)
		time.Sleep(writeInterval)
		expect("after the pause", 10, 50)
		a.Put(ended)
		a.Put([]task.Task{{State: task.Pending}})
		expect("with one that fires again", 10, 50, 11)
		time.Sleep(writeInterval)
		a.Put(ended)
		expect("alone", 10, 50, 11, 10)
		for range maxTasksPerWrite / 10 {
			a.Put(ended)
		}
		expect("as many as one write takes", 10, 50, 11, 10, maxTasksPerWrite)
		time.Sleep(writeInterval / 2)
		a.Put(ended)
		synctest.Wait()
		cancel()
		expect("when the worker stops", 10, 50, 11, 10, maxTasksPerWrite, 10)
	})
}

// silent is a dead topic that never answers.
type silent struct{}

func (silent) Bury(ctx context.Context, _ []task.DeadLetter) error {
	<-ctx.Done()
	return ctx.Err()
}

// However many tasks die in one transaction, few letters wait for a dead topic that is away.
func TestDeadLettersThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(nil)
		a := newAftermath(nil, silent{}, m, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.run(ctx, ctx)
		a.Bury(make([]task.DeadLetter, 1))
		synctest.Wait() // it is being sent
		for range 100 {
			a.Bury(make([]task.DeadLetter, maxQueuedLetters/50))
		}
		var lost dto.Metric
		if err := m.unburied.Write(&lost); err != nil || lost.GetCounter().GetValue() != maxQueuedLetters {
			t.Errorf("%v letters were passed over, want %d (%v)", lost.GetCounter().GetValue(), maxQueuedLetters, err)
		}
	})
}
