package console

import (
	"context"
	"slices"
	"sync"
	"time"
)

// What takes longer to read the more tasks there are is read for all viewers together: one reading at a time, with a pause after
// each, so that pages take a bounded part of the servers however many people look at them, and tasks stay on time.

const (
	readingAge      = time.Second            // for which a reading is new
	readingIdle     = 9                      // multiple of the time that a reading took, until the next one
	readingPatience = 100 * time.Millisecond // of a viewer who waits for a new one; the last one, or none, is shown then
	readingTimeout  = 15 * time.Second
	maxReadings     = 64 // that are kept
)

// readings are kept by a key, which names the view and what it is about. A reading that is no longer new is made anew when
// somebody asks for it.
type readings struct {
	busy chan struct{} // holds one value while a reading goes on

	mu   sync.Mutex
	kept map[string]*kept
	idle time.Time // until then no reading begins
}

func newReadings() *readings {
	return &readings{busy: make(chan struct{}, 1), kept: map[string]*kept{}}
}

type kept struct {
	last  reading[any]
	asked time.Time
	ended chan struct{} // closed at the end of the reading that goes on; nil if none does
}

// reading is what was read, when, and why the last try failed.
type reading[T any] struct {
	value T
	at    time.Time // zero: never
	err   error
}

// Reading is what a view says of its figures' reading.
type Reading struct {
	Ready  bool   // there are figures
	AgeMs  int64  // of them
	Failed string // why they could not be read anew
}

func (r reading[T]) about() Reading {
	out := Reading{Ready: !r.at.IsZero()}
	if out.Ready {
		out.AgeMs = time.Since(r.at).Milliseconds()
	}
	if r.err != nil {
		out.Failed = r.err.Error()
	}
	return out
}

// readShared returns the reading of a key. Its value is for all viewers: nobody may change it.
func readShared[T any](ctx context.Context, r *readings, key string, read func(ctx context.Context) (T, error)) reading[T] {
	last := r.get(ctx, key, func(ctx context.Context) (any, error) { return read(ctx) })
	value, _ := last.value.(T) // nil before the first reading
	return reading[T]{value, last.at, last.err}
}

func (r *readings) get(ctx context.Context, key string, read func(ctx context.Context) (any, error)) reading[any] {
	now := time.Now()
	r.mu.Lock()
	k := r.kept[key]
	if k == nil {
		r.dropOldest()
		k = &kept{}
		r.kept[key] = k
	}
	k.asked = now
	if k.ended == nil && now.Sub(k.last.at) >= readingAge {
		k.ended = make(chan struct{})
		go r.read(context.WithoutCancel(ctx), k, read, k.ended) // the next viewer gets it, if this one leaves
	}
	last, ended := k.last, k.ended
	r.mu.Unlock()
	if ended == nil {
		return last
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(readingPatience):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return k.last
}

// dropOldest makes room for one more.
func (r *readings) dropOldest() {
	if len(r.kept) < maxReadings {
		return
	}
	keys := make([]string, 0, len(r.kept))
	for key := range r.kept {
		keys = append(keys, key)
	}
	delete(r.kept, slices.MinFunc(keys, func(a, b string) int { return r.kept[a].asked.Compare(r.kept[b].asked) }))
}

// read makes a reading when it may.
func (r *readings) read(ctx context.Context, k *kept, read func(ctx context.Context) (any, error), ended chan struct{}) {
	r.begin(k)
	defer func() { <-r.busy }()
	ctx, cancel := context.WithTimeout(ctx, readingTimeout)
	defer cancel()
	began := time.Now()
	value, err := read(ctx)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.last.err = err; err == nil {
		k.last = reading[any]{value: value, at: now}
	}
	k.ended = nil
	r.idle = now.Add(readingIdle * now.Sub(began))
	close(ended)
}

// begin waits until this reading may begin. What was never read needs no pause before it; what could not be read does, or a
// server in need would be asked without an end.
func (r *readings) begin(k *kept) {
	for {
		r.busy <- struct{}{}
		r.mu.Lock()
		left := time.Until(r.idle)
		first := k.last.at.IsZero() && k.last.err == nil
		r.mu.Unlock()
		if first || left <= 0 {
			return
		}
		<-r.busy
		time.Sleep(left)
	}
}

// forget makes all viewers wait for new readings: something was changed. Readings that go on are for those who wait for them.
func (r *readings) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.kept)
}
