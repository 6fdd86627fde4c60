// Package batcher gathers the items of concurrent callers into shared calls.
//
// A call begins at once while fewer than Config.Calls are under way. Items that come during a call go together in the next
// call. So the slower the calls, the more items each call has. No caller waits for other callers unless Config.Linger or
// Config.Interval say so. Each caller gets the answer to its own item; callers that need no answer use Add.
package batcher

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrLeft is the answer to a caller whose context ended while a call with its item was under way. The call goes on.
var ErrLeft = errors.New("left before the answer")

// Config bounds the calls of a Batcher. Calls and Items must be positive.
type Config[In any] struct {
	Calls int // concurrent calls
	Items int // items in one call
	Queue int // items that wait for a call; Add refuses more; 0: Add refuses none

	// Linger is how long a call waits for more items after its first item came. Interval is how long a call waits after the
	// end of the previous call. Both waits end early once the call is full, an item is urgent, or the batcher is closed.
	Linger, Interval time.Duration
	Urgent           func(item In) bool // nil: no item is urgent
}

// Batcher gathers items; make it by New. It is safe for concurrent use.
type Batcher[In, Out any] struct {
	cfg   Config[In]
	call  func(ctx context.Context, items []In) ([]Out, error)
	begin chan struct{} // has a token for each goroutine of Run that is to make calls; closed by Close
	check chan struct{} // capacity 1: the wait for more items may be over

	mu        sync.Mutex
	working   int // goroutines that make calls
	items     []In
	answers   []*answer[Out] // one for each item; nil for items of Add
	lastItems int            // items of the call that began last: the likely size of the next call
	oldest    time.Time      // when the first of items came; only with Linger
	urgent    bool           // an item is urgent
	closed    bool
}

type answer[Out any] struct {
	out  Out
	err  error
	done chan struct{} // closed once the call has ended
}

// New makes a batcher. call answers in the order of its items; a nil slice answers each item with a zero value. Run makes
// the calls.
func New[In, Out any](cfg Config[In], call func(ctx context.Context, items []In) ([]Out, error)) *Batcher[In, Out] {
	return &Batcher[In, Out]{cfg: cfg, call: call, begin: make(chan struct{}, cfg.Calls), check: make(chan struct{}, 1)}
}

// Do returns the call's answer to this item, or the error of the whole call. When ctx ends first, the error is ctx's if no
// call has begun with the item, and ErrLeft otherwise. After Close each item has a call of its own.
func (b *Batcher[In, Out]) Do(ctx context.Context, item In) (out Out, err error) {
	mine := b.enter(item)
	if mine == nil {
		outs, err := b.call(ctx, []In{item})
		return at(outs, 0), err
	}
	select {
	case <-mine.done:
		return mine.out, mine.err
	case <-ctx.Done():
		if b.withdraw(mine) {
			return out, ctx.Err()
		}
		return out, ErrLeft
	}
}

// Submit adds an item without waiting. The returned channel is closed when the call with the item has ended, even if the
// call failed. After Close the item is refused, and the channel is nil.
func (b *Batcher[In, Out]) Submit(item In) <-chan struct{} {
	if mine := b.enter(item); mine != nil {
		return mine.done
	}
	return nil
}

func (b *Batcher[In, Out]) enter(item In) *answer[Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	mine := &answer[Out]{done: make(chan struct{})}
	if b.items == nil {
		b.items, b.answers = make([]In, 0, b.lastItems), make([]*answer[Out], 0, b.lastItems)
	}
	b.items, b.answers = append(b.items, item), append(b.answers, mine)
	b.wake(1)
	return mine
}

// Add adds items whose answers nobody needs, and never waits. It returns how many items were refused: those that did not
// fit, and all after Close.
func (b *Batcher[In, Out]) Add(items ...In) (refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := len(items)
	switch {
	case b.closed:
		taken = 0
	case b.cfg.Queue > 0:
		taken = min(taken, max(0, b.cfg.Queue-len(b.items)))
	}
	if taken > 0 {
		b.items, b.answers = append(b.items, items[:taken]...), append(b.answers, make([]*answer[Out], taken)...)
		b.wake(taken)
	}
	return len(items) - taken
}

// wake makes a goroutine of Run look at the last n items, which have just come.
func (b *Batcher[In, Out]) wake(n int) {
	if b.cfg.Linger > 0 && len(b.items) == n {
		b.oldest = time.Now()
	}
	if b.cfg.Urgent != nil && !b.urgent {
		b.urgent = slices.ContainsFunc(b.items[len(b.items)-n:], b.cfg.Urgent)
	}
	if b.working < b.cfg.Calls {
		b.working++
		b.begin <- struct{}{}
		return
	}
	if b.urgent || len(b.items) >= b.cfg.Items {
		b.endWait()
	}
}

func (b *Batcher[In, Out]) endWait() {
	select {
	case b.check <- struct{}{}:
	default:
	}
}

// Run makes the calls, with ctx, until the batcher is closed and no item waits. The end of ctx does not end Run: it makes
// the calls fail.
func (b *Batcher[In, Out]) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range b.cfg.Calls {
		all.Go(func() { b.work(ctx) })
	}
	all.Wait()
}

// work makes calls until no item waits, for each token of begin.
func (b *Batcher[In, Out]) work(ctx context.Context) {
	var ended time.Time
	for range b.begin {
		for {
			b.linger(ended)
			items, answers := b.take()
			if len(items) == 0 {
				break
			}
			b.serve(ctx, items, answers)
			if b.cfg.Interval > 0 {
				ended = time.Now()
			}
		}
	}
}

// Flush makes calls on the caller's goroutine until no item waits, without waiting for more. It needs no Run.
func (b *Batcher[In, Out]) Flush(ctx context.Context) {
	b.mu.Lock()
	b.working++
	b.mu.Unlock()
	for items, answers := b.take(); len(items) > 0; items, answers = b.take() {
		b.serve(ctx, items, answers)
	}
}

// linger waits for more items.
func (b *Batcher[In, Out]) linger(ended time.Time) {
	if b.cfg.Linger <= 0 && b.cfg.Interval <= 0 {
		return
	}
	for wait := b.wait(ended); wait > 0; wait = b.wait(ended) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-b.check:
		}
		timer.Stop()
	}
}

// wait returns how long the next call waits for more items; ended is when the previous call ended.
func (b *Batcher[In, Out]) wait(ended time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.urgent || len(b.items) == 0 || len(b.items) >= b.cfg.Items {
		return 0
	}
	return max(time.Until(b.oldest.Add(b.cfg.Linger)), time.Until(ended.Add(b.cfg.Interval)))
}

// take takes the items of one call. If there are none, the caller's goroutine stops making calls.
func (b *Batcher[In, Out]) take() ([]In, []*answer[Out]) {
	runtime.Gosched() // callers that were just answered may add their next items to this call
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.items), b.cfg.Items)
	if n > 0 {
		b.lastItems = n
	} else {
		b.working--
	}
	items, answers := b.items[:n:n], b.answers[:n:n]
	if b.items, b.answers = b.items[n:], b.answers[n:]; len(b.items) == 0 {
		b.items, b.answers = nil, nil // the arrays belong to the call
	}
	b.urgent = b.urgent && slices.ContainsFunc(b.items, b.cfg.Urgent)
	return items, answers
}

func (b *Batcher[In, Out]) serve(ctx context.Context, items []In, answers []*answer[Out]) {
	outs, err := b.call(ctx, items)
	for i, one := range answers {
		if one != nil {
			one.out, one.err = at(outs, i), err
			close(one.done)
		}
	}
}

func at[Out any](outs []Out, i int) (out Out) {
	if outs != nil {
		out = outs[i]
	}
	return out
}

// withdraw removes an item; false if a call has begun with it.
func (b *Batcher[In, Out]) withdraw(mine *answer[Out]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.answers, mine)
	if i < 0 {
		return false
	}
	b.items, b.answers = slices.Delete(b.items, i, i+1), slices.Delete(b.answers, i, i+1)
	return true
}

// Close ends Run once all accepted items are served.
func (b *Batcher[In, Out]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.begin)
		b.endWait()
	}
}
