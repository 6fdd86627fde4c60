package schedule

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// errLeft is for a caller whose context ended while its request was under way with others'.
var errLeft = errors.New("left before the answer")

// gather makes requests that come at the same time share calls. A request begins a call at once where less than so many
// are under way; the others go together as soon as one of those ends. So the slower the calls, the more requests each of
// them serves, and nobody lingers for company.
type gather[In, Out any] struct {
	most int                                        // requests in a call
	call func(context.Context, []In) ([]Out, error) // answers in the order of the requests; nil: zero values
	wake chan struct{}                              // lanes that begin; closed when no more do

	mu      sync.Mutex
	busy    int // lanes awake
	waiting []*request[In, Out]
	closed  bool
}

type request[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{} // closed when it was answered
}

func newGather[In, Out any](lanes, most int, call func(context.Context, []In) ([]Out, error)) *gather[In, Out] {
	return &gather[In, Out]{most: most, call: call, wake: make(chan struct{}, lanes)}
}

// ask returns the call's answer to this request. When ctx ends first, the error is that of ctx if nothing was done, and
// errLeft if the call goes on. After close each request is a call of its own.
func (g *gather[In, Out]) ask(ctx context.Context, in In) (out Out, err error) {
	r := g.enter(in)
	if r == nil {
		outs, err := g.call(ctx, []In{in})
		return answer(outs, 0), err
	}
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
		if g.withdraw(r) {
			return out, ctx.Err()
		}
		return out, errLeft
	}
}

// enter lines up, and wakes a lane if one sleeps; nil after close.
func (g *gather[In, Out]) enter(in In) *request[In, Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	r := &request[In, Out]{in: in, done: make(chan struct{})}
	g.waiting = append(g.waiting, r)
	if g.busy < cap(g.wake) {
		g.busy++
		g.wake <- struct{}{}
	}
	return r
}

// run serves until close, and ends when nobody waits any more.
func (g *gather[In, Out]) run(ctx context.Context) {
	var lanes sync.WaitGroup
	for range cap(g.wake) {
		lanes.Go(func() { g.lane(ctx) })
	}
	lanes.Wait()
}

// lane calls for all who wait, again and again until nobody does, and sleeps.
func (g *gather[In, Out]) lane(ctx context.Context) {
	for range g.wake {
		for rs := g.next(); len(rs) > 0; rs = g.next() {
			g.serve(ctx, rs)
		}
	}
}

// next takes what goes together; with nothing there the lane sleeps.
func (g *gather[In, Out]) next() []*request[In, Out] {
	runtime.Gosched() // who is about to ask, as who was just answered may be, comes along
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), g.most)
	rs := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	if n == 0 {
		g.busy--
	}
	return rs
}

func (g *gather[In, Out]) serve(ctx context.Context, rs []*request[In, Out]) {
	ins := make([]In, len(rs))
	for i, r := range rs {
		ins[i] = r.in
	}
	outs, err := g.call(ctx, ins)
	for i, r := range rs {
		r.out, r.err = answer(outs, i), err
		close(r.done)
	}
}

func answer[Out any](outs []Out, i int) (out Out) {
	if outs != nil {
		out = outs[i]
	}
	return out
}

// withdraw takes the request back; false if a call has begun with it.
func (g *gather[In, Out]) withdraw(r *request[In, Out]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == r {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// close ends run once those are served whom it knows of. Who comes later goes alone.
func (g *gather[In, Out]) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		close(g.wake)
	}
}
