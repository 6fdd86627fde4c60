package consoleweb

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
	countPatience   = time.Second            // of a count of what matches, which may take long
	livePatience    = 4 * time.Second        // of a page that has figures and asks for newer ones; below viewTimeout
	readingOld      = 10 * time.Second       // from which a reading must not pass for a new one
	readingTimeout  = 15 * time.Second
	maxReadings     = 64 // that are kept, with those that wait
	// maxOwed bounds the pauses that first readings skip: one after the longest reading. Views are seen at once so, and readings
	// take a tenth of the time all the same.
	maxOwed = readingIdle * readingTimeout
)

// readings are kept by a key, which names the view and what it is about. A reading that is no longer new is made anew when
// somebody asks for it.
type readings struct {
	changed chan struct{} // holds one value when the queue has changed

	mu      sync.Mutex
	kept    map[string]*kept
	queue   []*kept       // that wait for their readings, in the order in which they were asked for; each is one of kept
	working bool          // a goroutine makes the readings of the queue
	idle    time.Time     // until then no reading begins, but for first ones
	owed    time.Duration // pauses that were skipped, less the time since then in which a reading could have begun and none did
}

func newReadings() *readings {
	return &readings{changed: make(chan struct{}, 1), kept: map[string]*kept{}}
}

type kept struct {
	last  reading[any]
	asked time.Time
	ended chan struct{} // closed at the end of the reading that waits or goes on; nil if none does
	read  func() (any, error)
}

// reading is what was read, when, and why the last try failed.
type reading[T any] struct {
	value T
	at    time.Time // zero: never
	err   error
}

// freshness is what a view says of its figures' reading.
type freshness struct {
	Ready bool  // there are figures
	Old   bool  // they are older than a look at them suggests
	AtMs  int64 // when they were read, in Unix milliseconds
	Err   error // why they could not be read anew; nil if they could
}

func (r reading[T]) about() freshness {
	out := freshness{Ready: !r.at.IsZero()}
	if out.Ready {
		out.AtMs, out.Old = r.at.UnixMilli(), time.Since(r.at) >= readingOld
	}
	out.Err = r.err
	return out
}

// readFor is readShared for a viewer: for a page at once, with figures that may be old, and for its next look as new as can be.
func readFor[T any](ctx context.Context, v *visit, key string, read func(ctx context.Context) (T, error)) reading[T] {
	s, patience := v.site, readingPatience
	if part := v.r.FormValue("part"); part == "live" || part == partCount {
		patience = livePatience
	}
	return readShared(ctx, s.readings, patience, key, func(ctx context.Context) (value T, err error) {
		err = s.watch(ctx, func(ctx context.Context) error {
			value, err = read(ctx)
			return err
		})
		return value, s.blame(ctx, err)
	})
}

// readShared returns the reading of a key. Its value is for all viewers: nobody may change it.
func readShared[T any](
	ctx context.Context, r *readings, patience time.Duration, key string, read func(ctx context.Context) (T, error),
) reading[T] {
	last := r.get(ctx, patience, key, func(ctx context.Context) (any, error) { return read(ctx) })
	value, _ := last.value.(T) // nil before the first reading
	return reading[T]{value, last.at, last.err}
}

func (r *readings) get(
	ctx context.Context, patience time.Duration, key string, read func(ctx context.Context) (any, error),
) reading[any] {
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
		k.read = func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readingTimeout) // the next viewer gets it, if this one leaves
			defer cancel()
			return read(ctx)
		}
		r.queue = append(r.queue, k)
		if !r.working {
			r.working = true
			go r.work()
		}
		r.notify()
	}
	last, ended := k.last, k.ended
	r.mu.Unlock()
	if ended == nil {
		return last
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(patience):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return k.last
}

// notify has the goroutine look at the queue during a pause.
func (r *readings) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// dropOldest makes room for one more. Those who wait for a reading that is dropped have none.
func (r *readings) dropOldest() {
	if len(r.kept) < maxReadings {
		return
	}
	keys := make([]string, 0, len(r.kept))
	for key := range r.kept {
		keys = append(keys, key)
	}
	oldest := slices.MinFunc(keys, func(a, b string) int { return r.kept[a].asked.Compare(r.kept[b].asked) })
	k := r.kept[oldest]
	delete(r.kept, oldest)
	if i := slices.Index(r.queue, k); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		k.end()
	}
}

func (k *kept) end() {
	close(k.ended)
	k.ended, k.read = nil, nil
}

// work makes the readings of the queue, one after the other, and ends with the last.
func (r *readings) work() {
	for {
		k, pause := r.next()
		switch {
		case k != nil:
			r.run(k)
		case pause > 0:
			select {
			case <-time.After(pause):
			case <-r.changed:
			}
		default:
			return
		}
	}
}

// next takes a reading from the queue that may begin now. If none may, it returns how long to pause; 0 is the end of the queue.
// What was never read is taken before the pause is over, up to maxOwed. What could not be read is not, or a server in need would
// be asked without an end.
func (r *readings) next() (*kept, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.working = false
		return nil, 0
	}
	i, pause := 0, time.Until(r.idle)
	if pause > 0 {
		i = slices.IndexFunc(r.queue, func(k *kept) bool { return k.last.at.IsZero() && k.last.err == nil })
		if i < 0 {
			return nil, pause
		}
		if pause > maxOwed-r.owed {
			return nil, pause - (maxOwed - r.owed)
		}
	}
	r.owed = max(0, r.owed+pause)
	k := r.queue[i]
	r.queue = slices.Delete(r.queue, i, i+1)
	return k, 0
}

// run makes one reading.
func (r *readings) run(k *kept) {
	began := time.Now()
	value, err := k.read()
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.last.err = err; err == nil {
		k.last = reading[any]{value: value, at: now}
	}
	r.idle = now.Add(readingIdle * now.Sub(began))
	k.end()
}

// forget makes all viewers wait for new readings: something was changed. The reading that goes on is for those who wait for it.
func (r *readings) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.queue {
		k.end()
	}
	r.queue = nil
	clear(r.kept)
	r.notify()
}
