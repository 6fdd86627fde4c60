package consoleweb

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowRead is what viewers ask for. It takes a time, and counts.
type slowRead struct {
	took time.Duration
	err  error

	mu                  sync.Mutex
	reads, now, highest int
}

func (s *slowRead) read(ctx context.Context) (int, error) {
	s.mu.Lock()
	s.reads++
	s.now++
	s.highest = max(s.highest, s.now)
	n := s.reads
	s.mu.Unlock()
	time.Sleep(s.took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return n, errors.Join(s.err, ctx.Err())
}

// However many viewers ask, one reading goes on at a time, and no more than a tenth of the time.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: 50 * time.Millisecond}
		began := time.Now()
		var viewers sync.WaitGroup
		for viewer := range 20 {
			viewers.Go(func() {
				for time.Since(began) < time.Minute {
					readShared(t.Context(), r, readingPatience, strconv.Itoa(viewer%8), source.read)
					time.Sleep(time.Second)
				}
			})
		}
		viewers.Wait()
		time.Sleep(time.Minute) // the last ones end
		synctest.Wait()
		if source.highest != 1 {
			t.Errorf("%d readings went on at once", source.highest)
		}
		const keys = 8 // each is read once without a pause, and may wait at the end
		const bound = 2*keys + int(time.Minute/(50*time.Millisecond*(1+readingIdle)))
		if source.reads > bound || source.reads < bound/2 {
			t.Errorf("%d readings in a minute, want %d to %d", source.reads, bound/2, bound)
		}
	})
}

// A viewer gets a new reading at once, waits a little for a newer one, and gets an old one if it takes longer.
func TestReadingHasPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: 80 * time.Millisecond}
		get := func(wantValue int, wantWait time.Duration) {
			t.Helper()
			began := time.Now()
			got := readShared(t.Context(), r, readingPatience, "a", source.read)
			if waited := time.Since(began); got.value != wantValue || waited != wantWait || got.at.IsZero() != (wantValue == 0) {
				t.Errorf("got %d of %v after %v, want %d after %v", got.value, got.at, waited, wantValue, wantWait)
			}
		}
		get(1, source.took)
		get(1, 0)
		time.Sleep(readingAge)
		get(2, source.took)
		r.forget()
		get(3, source.took)
		source.took = 3 * readingPatience
		time.Sleep(readingAge)
		get(3, readingPatience)
		time.Sleep(source.took)
		get(4, 0)
		r.forget()
		get(0, readingPatience)
		time.Sleep(source.took)
		get(5, 0)
	})
}

// Figures that nobody has asked for lately don't pass for new ones, and the page's next look waits for newer ones.
func TestReadingThatIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: time.Second}
		about := func(patience time.Duration) freshness {
			return readShared(t.Context(), r, patience, "a", source.read).about()
		}
		about(livePatience)
		time.Sleep(readingOld - time.Second)
		if got := about(readingPatience); !got.Ready || got.Old {
			t.Errorf("of %v: %+v", readingOld-time.Second, got)
		}
		time.Sleep(2 * readingOld)
		if got := about(readingPatience); !got.Ready || !got.Old {
			t.Errorf("after a time without viewers: %+v", got)
		}
		if got := about(livePatience); got.Old {
			t.Errorf("at the next look: %+v", got)
		}
	})
}

// A reading that fails leaves the last one, and says why. One that was begun before a change is not for those who ask after it.
func TestReadingThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: 10 * time.Millisecond}
		readShared(t.Context(), r, readingPatience, "a", source.read)
		source.err = errors.New("the server is away")
		time.Sleep(readingAge)
		got := readShared(t.Context(), r, readingPatience, "a", source.read)
		if about := got.about(); got.value != 1 || !about.Ready || !errors.Is(about.Err, source.err) || time.Since(time.UnixMilli(about.AtMs)) < readingAge {
			t.Errorf("after a failure: %+v", got)
		}
		got = readShared(t.Context(), r, readingPatience, "b", source.read)
		if about := got.about(); about.Ready || !errors.Is(about.Err, source.err) {
			t.Errorf("a first reading that failed: %+v", got)
		}
		source.err = nil
		early := make(chan int)
		go func() { early <- readShared(t.Context(), r, readingPatience, "c", source.read).value }()
		synctest.Wait()
		r.forget()
		late := readShared(t.Context(), r, readingPatience, "c", source.read).value
		if before := <-early; late != before+1 {
			t.Errorf("reading %d was begun before the change, and %d answered after it", before, late)
		}
	})
}

// What can't be read is tried no more often than what can.
func TestReadingThatFailsPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: time.Second, err: errors.New("the server is away")}
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
			readShared(t.Context(), r, readingPatience, "a", source.read)
		}
		time.Sleep(time.Minute) // the last one ends
		synctest.Wait()
		if bound := 2 + int(time.Minute/(source.took*(1+readingIdle))); source.reads < 2 || source.reads > bound {
			t.Errorf("%d readings in a minute, want 2 to %d", source.reads, bound)
		}
	})
}

// The readings that nobody asks for are dropped.
func TestReadingsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{}
		for i := range 3 * maxReadings {
			readShared(t.Context(), r, readingPatience, strconv.Itoa(i), source.read)
			time.Sleep(time.Millisecond)
			readShared(t.Context(), r, readingPatience, "0", source.read)
		}
		if len(r.kept) != maxReadings || r.kept["0"] == nil {
			t.Errorf("%d readings are kept, want %d with the one that is asked for", len(r.kept), maxReadings)
		}
	})
}

// Whatever viewers ask for, few readings wait, in one goroutine. This test counts goroutines, so no other one runs beside it.
func TestReadingsThatWaitAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		r, release, reads := newReadings(), make(chan struct{}), 0
		read := func(context.Context) (int, error) {
			reads++
			<-release
			return reads, nil
		}
		before := runtime.NumGoroutine()
		for i := range keys {
			if got := readShared(t.Context(), r, readingPatience, strconv.Itoa(i), read); got.about().Ready {
				t.Fatalf("key %d has a reading, which can't end", i)
			}
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > maxReadings {
			t.Errorf("%d goroutines wait", n)
		}
		close(release)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := reads - 1; n < 1 || n > maxReadings { // one had begun
			t.Errorf("%d readings of %d keys came after all, want 1 to %d", n, keys, maxReadings)
		}
		if got := readShared(t.Context(), r, readingPatience, strconv.Itoa(keys-1), read); !got.about().Ready {
			t.Error("the newest key has no reading")
		}
	})
}

// Readings take a tenth of the time, also where each is a first one: of keys that nobody asked for before, or after a change.
func TestFirstReadingsAreBounded(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(i int) string{
		"new keys": strconv.Itoa, "changes": func(int) string { return "a" },
	} {
		synctest.Test(t, func(t *testing.T) {
			r, source := newReadings(), &slowRead{took: time.Second}
			began := time.Now()
			for i := 0; time.Since(began) < time.Hour; i++ {
				readShared(t.Context(), r, readingPatience, key(i), source.read)
				r.forget()
			}
			reads := source.reads
			time.Sleep(time.Hour) // the last ones end
			const share = int(time.Hour / (time.Second * (1 + readingIdle)))
			const ahead = int(readingTimeout/time.Second) + 1
			if reads < share*9/10 || reads > share+ahead {
				t.Errorf("%s: %d readings of a second in an hour, want about %d", name, reads, share)
			}
		})
	}
}

// What is asked for again and again is read, however many others are asked for once.
func TestReadingIsNotPushedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, source := newReadings(), &slowRead{took: time.Second}
		began, ready := time.Now(), false
		for i := 0; time.Since(began) < time.Hour && !ready; i++ {
			readShared(t.Context(), r, readingPatience, strconv.Itoa(i), source.read)
			if i > 3*maxReadings {
				ready = readShared(t.Context(), r, readingPatience, "mine", source.read).about().Ready
			}
		}
		if !ready {
			t.Error("no reading within an hour")
		}
		time.Sleep(time.Hour) // the last ones end
	})
}
