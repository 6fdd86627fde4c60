package batcher_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/batcher"
)

func wantCalls(t *testing.T, d *doubled, want ...[]int) {
	t.Helper()
	synctest.Wait()
	if got := d.made(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

// Add accepts at most Config.Queue items, and returns how many it refused.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	configured(t, batcher.Config[int]{Calls: 1, Items: 3, Queue: 4}, func(t *testing.T, b *doubler, d *doubled) {
		b.Add(1)
		synctest.Wait() // its call is under way
		if refused := b.Add(2, 3, 4); refused != 0 {
			t.Errorf("refused %d items, want 0", refused)
		}
		if refused := b.Add(5, 6, 7); refused != 2 {
			t.Errorf("refused %d items, want 2", refused)
		}
		time.Sleep(3 * time.Second)
		wantCalls(t, d, []int{1}, []int{2, 3, 4}, []int{5})
		b.Close()
		if refused := b.Add(8, 9); refused != 2 {
			t.Errorf("refused %d items after Close, want 2", refused)
		}
		if b.Submit(8) != nil {
			t.Error("an item was taken after Close")
		}
	})
}

// The first item waits for others for Config.Linger; a full call and Close end the wait.
func TestCallWaitsForMoreItems(t *testing.T) {
	t.Parallel()
	const linger = 100 * time.Millisecond
	configured(t, batcher.Config[int]{Calls: 2, Items: 3, Linger: linger}, func(t *testing.T, b *doubler, d *doubled) {
		b.Add(1)
		time.Sleep(linger - time.Nanosecond)
		b.Add(2)
		wantCalls(t, d)
		time.Sleep(time.Nanosecond)
		wantCalls(t, d, []int{1, 2})
		b.Add(3, 4, 5)
		wantCalls(t, d, []int{1, 2}, []int{3, 4, 5})
		time.Sleep(2 * time.Second)
		b.Add(6)
		synctest.Wait()
		b.Close()
		wantCalls(t, d, []int{1, 2}, []int{3, 4, 5}, []int{6})
	})
}

// Config.Interval lies between calls; an urgent item begins a call at once, with all items that wait.
func TestCallsBeginApart(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	cfg := batcher.Config[int]{Calls: 1, Items: 3, Interval: interval, Urgent: func(item int) bool { return item >= 9 }}
	configured(t, cfg, func(t *testing.T, b *doubler, d *doubled) {
		b.Add(1)
		time.Sleep(time.Second + interval/2) // its call took a second
		b.Add(2)
		wantCalls(t, d, []int{1})
		b.Add(9)
		wantCalls(t, d, []int{1}, []int{2, 9})
		b.Add(3, 4, 5, 9) // the urgent item follows a full call
		time.Sleep(2 * time.Second)
		wantCalls(t, d, []int{1}, []int{2, 9}, []int{3, 4, 5}, []int{9})
		time.Sleep(time.Second + interval)
		b.Add(6)
		wantCalls(t, d, []int{1}, []int{2, 9}, []int{3, 4, 5}, []int{6}, []int{9})
		time.Sleep(time.Second)
	})
}

// Flush serves the waiting items on its caller's goroutine, without Run.
func TestFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d doubled
		b := batcher.New(batcher.Config[int]{Calls: 1, Items: 3, Linger: time.Hour}, d.call)
		for range 2 {
			b.Add(1, 2, 3, 4)
			b.Flush(context.Background())
		}
		wantCalls(t, &d, []int{1, 2, 3}, []int{1, 2, 3}, []int{4}, []int{4})
	})
}
