package batcher_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/batcher"
)

type doubler = batcher.Batcher[int, int]

// doubled answers each number with its double after a second, and records the items of each call.
type doubled struct {
	mu    sync.Mutex
	calls [][]int
	err   error
}

func (d *doubled) call(_ context.Context, ins []int) ([]int, error) {
	d.mu.Lock()
	d.calls = append(d.calls, slices.Clone(ins))
	d.mu.Unlock()
	time.Sleep(time.Second)
	outs := make([]int, len(ins))
	for i, in := range ins {
		outs[i] = 2 * in
	}
	return outs, d.err
}

// made returns the calls so far, sorted.
func (d *doubled) made() [][]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(slices.Values(d.calls), slices.Compare)
}

// running runs a case with this many concurrent calls of at most three items.
func running(t *testing.T, calls int, run func(t *testing.T, b *doubler, d *doubled)) {
	t.Helper()
	configured(t, batcher.Config[int]{Calls: calls, Items: 3}, run)
}

func configured(t *testing.T, cfg batcher.Config[int], run func(t *testing.T, b *doubler, d *doubled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var d doubled
		b := batcher.New(cfg, d.call)
		var running sync.WaitGroup
		running.Go(func() { b.Run(context.Background()) })
		run(t, b, &d)
		b.Close()
		running.Wait()
	})
}

// askInOrder asks for 1 to n in this order, without waiting for answers.
func askInOrder(t *testing.T, b *doubler, n int) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if out, err := b.Do(t.Context(), i+1); out != 2*(i+1) || err != nil {
				t.Errorf("answer to %d is %d, %v", i+1, out, err)
			}
		})
		synctest.Wait()
	}
	return all.Wait
}

func TestThoseWhoWaitGoTogether(t *testing.T) {
	t.Parallel()
	running(t, 2, func(t *testing.T, b *doubler, d *doubled) {
		began := time.Now()
		askInOrder(t, b, 8)()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v, want 2s: two at once, then all who waited", took)
		}
		if want := [][]int{{1}, {2}, {3, 4, 5}, {6, 7, 8}}; !slices.EqualFunc(d.made(), want, slices.Equal) {
			t.Errorf("calls %v, want %v", d.made(), want)
		}
	})
}

func TestNobodyWaitsForCompany(t *testing.T) {
	t.Parallel()
	running(t, 1, func(t *testing.T, b *doubler, d *doubled) {
		for range 3 {
			began := time.Now()
			askInOrder(t, b, 1)()
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v, want 1s", took)
			}
		}
		if len(d.made()) != 3 {
			t.Errorf("calls %v, want three of one", d.made())
		}
	})
}

func TestErrorOfACallIsThatOfAll(t *testing.T) {
	t.Parallel()
	running(t, 1, func(t *testing.T, b *doubler, d *doubled) {
		d.err = errors.New("away")
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if _, err := b.Do(t.Context(), i); !errors.Is(err, d.err) {
					t.Errorf("error is %v, want %v", err, d.err)
				}
			})
		}
		all.Wait()
	})
}

// A caller that leaves before its call begins gets its context's error; one that leaves during the call gets ErrLeft.
func TestWhoLeavesIsToldWhetherItWasServed(t *testing.T) {
	t.Parallel()
	running(t, 1, func(t *testing.T, b *doubler, d *doubled) {
		wait := askInOrder(t, b, 1)
		inLine, leaveLine := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leaveLine()
		inCall, leaveCall := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer leaveCall()
		var all sync.WaitGroup
		for ctx, want := range map[context.Context]error{inLine: context.DeadlineExceeded, inCall: batcher.ErrLeft} {
			all.Go(func() {
				if _, err := b.Do(ctx, 7); !errors.Is(err, want) {
					t.Errorf("error is %v, want %v", err, want)
				}
			})
		}
		all.Wait()
		wait()
		if want := [][]int{{1}, {7}}; !slices.EqualFunc(d.made(), want, slices.Equal) {
			t.Errorf("calls %v, want %v", d.made(), want)
		}
		time.Sleep(time.Second) // the call goes on without its caller
	})
}

func TestCloseLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	running(t, 1, func(t *testing.T, b *doubler, d *doubled) {
		before := askInOrder(t, b, 3) // two of them wait
		b.Close()
		after := askInOrder(t, b, 3)
		before()
		after()
		if want := [][]int{{1}, {1}, {2}, {2, 3}, {3}}; !slices.EqualFunc(d.made(), want, slices.Equal) {
			t.Errorf("calls %v, want %v", d.made(), want)
		}
	})
}
