package indexwriter

import (
	stdcmp "cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// fakeIndex is an index whose answers a test sets.
type fakeIndex struct {
	put func(ctx context.Context, tasks []task.Task) error
}

func (f fakeIndex) Put(ctx context.Context, tasks []task.Task) error { return f.put(ctx, tasks) }

// inbox records the compensated ids.
type inbox struct {
	mu   sync.Mutex
	ids  []task.ID
	hold func(ctx context.Context) error // nil: every message is taken at once
}

func (i *inbox) Compensate(ctx context.Context, c protocol.Compensation) error {
	if i.hold != nil {
		if err := i.hold(ctx); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ids = append(i.ids, c.IDs...)
	return nil
}

func (i *inbox) got() []task.ID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]task.ID(nil), i.ids...)
}

// drainTime is how long a rig runs after close.
const drainTime = 2 * time.Second

// rig is a running writer.
type rig struct {
	*Writer
	inbox *inbox
	close func()
}

func newRig(t *testing.T, cfg Config, put func(context.Context, []task.Task) error, in *inbox) *rig {
	t.Helper()
	cfg.CallerWait = stdcmp.Or(cfg.CallerWait, 50*time.Millisecond)
	cfg.PutTimeout = stdcmp.Or(cfg.PutTimeout, 500*time.Millisecond)
	cfg.Backlog = stdcmp.Or(cfg.Backlog, 1<<17)
	cfg.Logger = slog.New(slog.DiscardHandler)
	w := New(cfg, fakeIndex{put}, in)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return &rig{Writer: w, inbox: in, close: func() {
		defer cancel()
		defer time.AfterFunc(drainTime, cancel).Stop()
		w.Close()
		running.Wait()
	}}
}

func someTasks(n int) []task.Task {
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = task.Task{ID: task.NewID(), Version: 1}
	}
	return tasks
}

func hang(ctx context.Context, _ []task.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func (r *rig) counted(t *testing.T, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for _, result := range []string{resultOK, resultFailed, resultSkipped} {
		got["put "+result] = counterValue(t, r.metrics.puts.WithLabelValues(result))
	}
	for _, result := range []string{resultOK, resultFailed, resultDropped} {
		got["compensated "+result] = counterValue(t, r.metrics.compensations.WithLabelValues(result))
	}
	for name, n := range got {
		if n == 0 {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestHangingIndexDelaysNobodyForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, hang, &inbox{})
		tasks := someTasks(3)
		began := time.Now()
		r.PutAndWait(t.Context(), tasks)
		if got := time.Since(began); got != 50*time.Millisecond {
			t.Errorf("waited %v, want 50ms", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff(protocol.IDs(tasks), r.inbox.got()); diff != "" {
			t.Errorf("compensated (-want +got):\n%s", diff)
		}
		r.close()
		r.counted(t, map[string]float64{"put failed": 3, "compensated ok": 3})
	})
}

func TestHangingIndexPilesNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, hang, &inbox{})
		const callers, calls = 100, 60
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					began := time.Now()
					r.PutAndWait(t.Context(), someTasks(1))
					if got := time.Since(began); got > 50*time.Millisecond {
						t.Errorf("waited %v, want at most 50ms", got)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		r.close()
		if got := len(r.inbox.got()); got != callers*calls {
			t.Errorf("compensated %d ids, want %d", got, callers*calls)
		}
		if counterValue(t, r.metrics.puts.WithLabelValues(resultSkipped)) == 0 {
			t.Error("the breaker never opened")
		}
	})
}

func TestBrokenIndexIsTriedAgainAndThenLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, broken := 0, true
		r := newRig(t, Config{}, func(context.Context, []task.Task) error {
			calls++
			if broken {
				return errors.New("refused")
			}
			return nil
		}, &inbox{})
		for range 5 {
			r.PutAndWait(t.Context(), someTasks(1))
		}
		if want := failuresToOpen * maxTries; calls != want {
			t.Errorf("index was asked %d times, want %d", calls, want)
		}
		broken = false
		time.Sleep(breakerOpenTime + time.Millisecond)
		r.PutAndWait(t.Context(), someTasks(1))
		r.PutAndWait(t.Context(), someTasks(1))
		r.close()
		r.counted(t, map[string]float64{"put failed": 3, "put skipped": 2, "put ok": 2, "compensated ok": 5})
	})
}

func TestOneBriefFailureIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		r := newRig(t, Config{}, func(context.Context, []task.Task) error {
			calls++
			if calls == 1 {
				return errors.New("moved")
			}
			return nil
		}, &inbox{})
		r.PutAndWait(t.Context(), someTasks(2))
		r.close()
		r.counted(t, map[string]float64{"put ok": 2})
	})
}

func TestFullBacklogDropsAndCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := &inbox{hold: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		r := newRig(t, Config{Backlog: 10}, func(context.Context, []task.Task) error { return errors.New("refused") }, in)
		for range 3 {
			r.PutAndWait(t.Context(), someTasks(1))
		}
		synctest.Wait() // one message is being sent; two wait
		began := time.Now()
		r.PutAndWait(t.Context(), someTasks(100))
		if got := time.Since(began); got != 0 {
			t.Errorf("waited %v for the backlog", got)
		}
		r.close()
		dropped := counterValue(t, r.metrics.compensations.WithLabelValues(resultDropped))
		if dropped < 90 {
			t.Errorf("dropped %v ids, want at least 90", dropped)
		}
		failed := counterValue(t, r.metrics.compensations.WithLabelValues(resultFailed))
		if dropped+failed != 103 {
			t.Errorf("%v dropped and %v failed, want 103 in all", dropped, failed)
		}
	})
}

func TestConcurrentCallersShareOnePut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		r := newRig(t, Config{}, func(_ context.Context, tasks []task.Task) error {
			sizes = append(sizes, len(tasks))
			time.Sleep(10 * time.Millisecond)
			return nil
		}, &inbox{})
		var wg sync.WaitGroup
		wg.Go(func() { r.PutAndWait(t.Context(), someTasks(1)) })
		synctest.Wait() // the first put is under way
		for range 20 {
			wg.Go(func() { r.PutAndWait(t.Context(), someTasks(2)) })
		}
		wg.Wait()
		r.close()
		if diff := cmp.Diff([]int{1, 40}, sizes); diff != "" {
			t.Errorf("sizes of the puts (-want +got):\n%s", diff)
		}
	})
}

// A task is answered before its put. Its change must come after that put, or a cancelled task would stay in the index.
func TestChangeComesAfterThePutOfTheMaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var versions []int64
		r := newRig(t, Config{}, func(_ context.Context, tasks []task.Task) error {
			time.Sleep(10 * time.Millisecond)
			for _, made := range tasks {
				versions = append(versions, made.Version)
			}
			return nil
		}, &inbox{})
		made := someTasks(1)
		began := time.Now()
		r.Enqueue(t.Context(), made)
		if took := time.Since(began); took > 0 {
			t.Errorf("the making was answered after %v, want at once", took)
		}
		synctest.Wait() // the put is under way
		made[0].Version, made[0].State = 2, task.Cancelled
		r.PutDirectly(t.Context(), made)
		r.close()
		if diff := cmp.Diff([]int64{1, 2}, versions); diff != "" {
			t.Errorf("versions in the order of their puts (-want +got):\n%s", diff)
		}
	})
}

// Small puts that nobody waits for begin minPutInterval apart.
func TestSmallPutsAreSpacedUnlessACallerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var puts []time.Duration
		r := newRig(t, Config{}, func(context.Context, []task.Task) error {
			puts = append(puts, time.Since(began))
			return nil
		}, &inbox{})
		at := func(after time.Duration) {
			time.Sleep(time.Until(began.Add(after)))
			synctest.Wait()
		}
		const ms = time.Millisecond
		at(10 * ms)
		r.Enqueue(t.Context(), someTasks(1)) // at once
		at(11 * ms)
		r.Enqueue(t.Context(), someTasks(1)) // at 15
		at(16 * ms)
		r.Enqueue(t.Context(), someTasks(1)) // at 20, if nobody waited
		at(18 * ms)
		r.PutAndWait(t.Context(), someTasks(1))
		if took := time.Since(began); took != 18*ms {
			t.Errorf("who waited for a put was answered at %v, want at once", took)
		}
		at(30 * ms)
		r.close()
		if diff := cmp.Diff([]time.Duration{10 * ms, 15 * ms, 18 * ms, 18 * ms}, puts); diff != "" {
			t.Errorf("puts (-want +got):\n%s", diff)
		}
	})
}

// A list shows all tasks whose scheduling was answered before, unless the index hangs.
func TestListWaitsForThePutsBefore(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{10 * time.Millisecond: 10 * time.Millisecond, time.Minute: 50 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{}, func(ctx context.Context, _ []task.Task) error {
				select {
				case <-time.After(took):
				case <-ctx.Done():
				}
				return ctx.Err()
			}, &inbox{})
			r.Enqueue(t.Context(), someTasks(1))
			began := time.Now()
			r.WaitForEarlierPuts(t.Context())
			if waited := time.Since(began); waited != want {
				t.Errorf("waited %v for a put of %v, want %v", waited, took, want)
			}
			r.close()
			began = time.Now()
			if r.WaitForEarlierPuts(t.Context()); time.Since(began) > 0 {
				t.Errorf("waited %v for nothing", time.Since(began))
			}
		})
	}
}

// Concurrent callers in bulk are slowed down to what the index takes, in calls of bounded size; nothing is compensated.
func TestCallersInBulkWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		most := 0
		r := newRig(t, Config{}, func(_ context.Context, tasks []task.Task) error {
			mu.Lock()
			most = max(most, len(tasks))
			mu.Unlock()
			time.Sleep(time.Duration(len(tasks)) * 50 * time.Microsecond) // 20,000 a second
			return nil
		}, &inbox{})
		const callers, calls, tasks = 64, 5, 1000
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					r.PutAndWait(t.Context(), someTasks(tasks))
				}
			})
		}
		wg.Wait()
		r.close()
		r.counted(t, map[string]float64{"put ok": callers * calls * tasks})
		if most > maxTasksPerCall {
			t.Errorf("one call had %d tasks, want at most %d", most, maxTasksPerCall)
		}
	})
}

// A transaction of more tasks than maxQueuedTasks takes all the room.
func TestMoreThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(context.Context, []task.Task) error { return nil }, &inbox{})
		for range 2 {
			r.PutAndWait(t.Context(), someTasks(maxQueuedTasks+1))
		}
		r.close()
		r.counted(t, map[string]float64{"put ok": 2 * (maxQueuedTasks + 1)})
	})
}

func TestCloseDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := &inbox{hold: func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }}
		r := newRig(t, Config{CallerWait: time.Millisecond}, func(context.Context, []task.Task) error {
			time.Sleep(100 * time.Millisecond)
			return errors.New("refused")
		}, in)
		r.PutAndWait(t.Context(), someTasks(4))
		r.close()
		if got := len(in.got()); got != 4 {
			t.Errorf("compensated %d ids before Close returned, want 4", got)
		}
		r.PutAndWait(t.Context(), someTasks(1))
		r.counted(t, map[string]float64{"put failed": 4, "put skipped": 1, "compensated ok": 4, "compensated dropped": 1})
	})
}

func TestCloseGivesUpOnWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := &inbox{hold: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		r := newRig(t, Config{PutTimeout: time.Hour}, hang, in)
		r.PutAndWait(t.Context(), someTasks(4))
		began := time.Now()
		r.close()
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("closing took %v, want 2s", got)
		}
		r.counted(t, map[string]float64{"put failed": 4, "compensated dropped": 4})
	})
}

// Under load many batches of a worker end between two puts, and one put has them all. What comes alone, or is to fire again, waits
// for nothing.
func TestLateDropsWaitForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		r := newRig(t, Config{}, func(_ context.Context, tasks []task.Task) error {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(tasks))
			return nil
		}, &inbox{})
		expect := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(sizes, want) {
				t.Errorf("%s: puts of %v tasks, want %v", when, sizes, want)
			}
		}
		ended := slices.Repeat([]task.Task{{State: task.Done}}, 10)
		r.Offer(ended)
		expect("the first", 10)
		for range 5 {
			r.Offer(ended)
			time.Sleep(time.Millisecond)
		}
		r.WaitForEarlierPuts(t.Context()) // a list does not wait for them
		expect("right behind it", 10)
		time.Sleep(lateDropInterval)
		expect("after the interval", 10, 50)
		r.Offer(ended)
		r.Offer([]task.Task{{State: task.Pending}})
		time.Sleep(minPutInterval)
		expect("with one that fires again", 10, 50, 11)
		r.Offer(ended)
		time.Sleep(minPutInterval)
		r.PutAndWait(t.Context(), someTasks(1))
		expect("with one that somebody waits for", 10, 50, 11, 11)
		r.Offer(ended)
		r.close()
		expect("at the end", 10, 50, 11, 11, 10)
		r.counted(t, map[string]float64{"put ok": 92})
	})
}

// A worker does not wait for room: what does not fit is compensated.
func TestOfferNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := &inbox{}
		r := newRig(t, Config{}, func(ctx context.Context, _ []task.Task) error { <-ctx.Done(); return ctx.Err() }, in)
		began := time.Now()
		r.Offer(someTasks(maxQueuedTasks))
		r.Offer(someTasks(3))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited %v", waited)
		}
		r.close()
		if got := len(in.got()); got != maxQueuedTasks+3 {
			t.Errorf("compensated %d ids, want %d", got, maxQueuedTasks+3)
		}
	})
}
