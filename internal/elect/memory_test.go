package elect_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/elect"
)

// counter is Epochs in memory. hook is called before each call; its error is the call's answer.
type counter struct {
	mu   sync.Mutex
	last map[string]int64
	hook func(ctx context.Context, op string) error
}

func newCounter() *counter { return &counter{last: map[string]int64{}} }

func (c *counter) setHook(hook func(ctx context.Context, op string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = hook
}

func (c *counter) raise(ctx context.Context, op, name string, floor int64, by int64) (int64, error) {
	c.mu.Lock()
	hook := c.hook
	c.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, op); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[name] = max(c.last[name], floor) + by
	return c.last[name], nil
}

func (c *counter) Take(ctx context.Context, name string) (int64, error) {
	return c.raise(ctx, "take", name, 0, 1)
}

func (c *counter) TakeAbove(ctx context.Context, name string, stored int64) (int64, error) {
	return c.raise(ctx, "take", name, stored, 1)
}

func (c *counter) Current(ctx context.Context, name string) (int64, error) {
	return c.raise(ctx, "current", name, 0, 0)
}

// fallBack sets a counter, as a backup that is restored does.
func (c *counter) fallBack(name string, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[name] = to
}

// handOver is how long a stopping leader's place waits for its function; a slow machine may take longer.
const handOver = 100 * time.Millisecond

// index is in place of Redis: it refuses an epoch below the stored one, and records the accepted claims.
type index struct {
	mu      sync.Mutex
	stored  int64
	by      string               // the candidate of the last claim
	claims  map[string]int       // accepted, by candidate
	running map[string]int       // functions by candidate
	most    int                  // maximum of functions running at once; without those whose context ended long ago
	told    map[string]time.Time // when the context of a candidate's function ended
	starts  []int64              // epochs whose function started
	mute    map[string]bool
	stuck   map[string]chan struct{} // functions that return only when this closes
	fail    map[string]error         // functions that return this once
}

func newIndex() *index {
	return &index{
		claims: map[string]int{}, running: map[string]int{}, told: map[string]time.Time{}, mute: map[string]bool{},
		stuck: map[string]chan struct{}{}, fail: map[string]error{},
	}
}

// with calls f under the lock.
func (x *index) with(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// read returns f's value, under the lock.
func read[T any](x *index, f func() T) T {
	x.mu.Lock()
	defer x.mu.Unlock()
	return f()
}

func (x *index) started(who string, epoch int64) (hold chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running[who]++
	total := 0
	for who, n := range x.running {
		if at, told := x.told[who]; !told || time.Since(at) < handOver {
			total += n
		}
	}
	x.most = max(x.most, total)
	x.starts = append(x.starts, epoch)
	return x.stuck[who]
}

// claim is one pass. It returns the stored epoch if fenced, whether the pass counts, and an error that ends the function.
func (x *index) claim(who string, epoch int64) (stored int64, done bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.fail[who]; err != nil {
		delete(x.fail, who)
		return 0, false, err
	}
	if x.mute[who] {
		return 0, false, nil
	}
	if epoch < x.stored {
		return x.stored, false, nil
	}
	x.stored, x.by = epoch, who
	x.claims[who]++
	return 0, true, nil
}

// lead is a leader's function: it claims until its term ends.
func (x *index) lead(who string) func(context.Context, *elect.Term) error {
	return func(ctx context.Context, term *elect.Term) error {
		hold := x.started(who, term.Epoch)
		defer x.with(func() { x.running[who]-- })
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				if hold != nil {
					<-hold
				}
				return ctx.Err()
			case <-tick.C:
			}
			stored, done, err := x.claim(who, term.Epoch)
			if err != nil {
				return err
			}
			if stored > 0 {
				term.Fenced(stored)
			}
			if done {
				term.Progress()
			}
		}
	}
}

const patience = 30 * time.Second

// eventually polls until ok, and reports how long it took.
func eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin)
}
