package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// putNow writes a task that is due at this moment of the real clock.
func (w *world) putNow(t testing.TB, queue, owner string) task.Task {
	t.Helper()
	one := pending(queue, time.Now())
	one.Owner = owner
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{one}))
	return one
}

func realWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, worldtest.Memory(t).Addr(), Config{Now: time.Now, Idle: 20 * time.Millisecond})
}

// Refused entries that wait for the answer to a call are not claimed again each millisecond: the answer wakes the shard.
func TestEntriesBehindAnOpenCallWaitForItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	s := w.shard(0, 1, nil)
	defer s.answers.Wait()
	defer cancel()
	woken := make(chan struct{}, 1)
	s.wakeUp = func() { woken <- struct{}{} }
	for range hintsPerRetry + 10 {
		w.put(t, "bad", -1000)
	}
	w.stream.refuse(func(e protocol.Entry) error { return onBad(e, errRefused) })
	pass(t, s)
	*w.now = at(firstRetry.Milliseconds())
	pass(t, s)
	w.stream.refuse(func(e protocol.Entry) error {
		if e.Queue == "bad" {
			<-ctx.Done()
		}
		return onBad(e, errRefused)
	})
	*w.now = w.now.Add(laterRetry)
	if got := pass(t, s); got.More || got.Next < waitingSleep || len(s.inFlight) != hintsPerRetry {
		t.Errorf("got %+v with %d hints in flight, want %d and a sleep until the answer", got, len(s.inFlight), hintsPerRetry)
	}
	cancel()
	select {
	case <-woken:
	case <-time.After(limit):
		t.Error("the answer did not wake the shard")
	}
}

// Only the queue without an answer is in trouble. Another queue, whose call was answered meanwhile, does not wait for it.
func TestAnsweredQueueIsNotInTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{Limit: 10})
	ctx, cancel := context.WithCancel(t.Context())
	s := w.shard(0, 1, nil)
	defer s.answers.Wait()
	defer cancel()
	w.stream.refuse(func(e protocol.Entry) error {
		if e.Queue == "bad" {
			<-ctx.Done()
		}
		return nil
	})
	for range w.cfg.Limit - 1 {
		w.put(t, "bad", -20)
	}
	w.put(t, "default", -10)
	pass(t, s)
	_, bad := s.trouble["bad"]
	if _, good := s.trouble["default"]; good || !bad {
		t.Errorf("in trouble: bad %v, default %v, want only bad", bad, good)
	}
	for range w.cfg.Limit {
		w.put(t, "bad", -15)
	}
	pass(t, s)
	good := w.put(t, "default", -5)
	pass(t, s)
	if len(s.inFlight) < w.cfg.Limit || w.stream.hints(good) != 1 {
		t.Errorf("%d hints of the other queue behind %d without an answer, want 1", w.stream.hints(good), len(s.inFlight))
	}
}

// unclaimable is an index whose claims fail.
type unclaimable struct {
	Index
	looks atomic.Int64
}

var errUnclaimable = errors.New("no claims")

func (u *unclaimable) Claim(context.Context, int, int64, time.Time, time.Duration, int, []protocol.Entry) (protocol.Claim, error) {
	return protocol.Claim{}, errUnclaimable
}

func (u *unclaimable) Marked(ctx context.Context, shards int) ([]bool, error) {
	u.looks.Add(1)
	return u.Index.Marked(ctx, shards)
}

// A leader whose claims all fail must be replaced, even if it can read the markers.
func TestLookAtTheMarkersIsNoProgress(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	u := &unclaimable{Index: w.index}
	w.Dispatcher.index = u
	stop := lead(t, w, 1)
	pipelinetest.Await(t, "two looks at the markers", func() bool { return u.looks.Load() > 1 })
	if n := passes(w.term); n > 0 {
		t.Errorf("progress %d without a claim", n)
	}
	pipelinetest.Must(t, stop())
}

// The number of entries that a shard remembers must not grow with the number of due entries.
func TestRefusedQueueIsBounded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Limit = 10
		w.stream.refuse(func(e protocol.Entry) error { return onBad(e, errRefused) })
		s := w.shard(0, 1, nil)
		for n := range 200 {
			w.put(t, "bad", int64(n-1000))
			if n%10 == 0 {
				*w.now = w.now.Add(50 * time.Millisecond)
				pass(t, s)
			}
			if len(s.refusals) > 10 || len(s.inFlight) > 20 || len(s.acked) > 40 {
				t.Fatalf("%d entries wait for their next try, %d for an answer, %d to be removed", len(s.refusals), len(s.inFlight), len(s.acked))
			}
		}
		good := w.put(t, "default", -10)
		for range 20 {
			pass(t, s)
		}
		if w.stream.hints(good) != 1 {
			t.Error("the entry behind them was not published")
		}
	})
}

// deaf answers no hint until its context ends.
type deaf struct {
	Stream
	called chan struct{}
}

func (d deaf) Publish(ctx context.Context, entries []protocol.Entry, _ int64) []error {
	select {
	case d.called <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return make([]error, len(entries))
}

// A fenced term ends at once, even if Kafka has not answered its calls.
func TestFencedTermWaitsForNoAnswer(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	d := deaf{w.stream, make(chan struct{}, 1)}
	w.Dispatcher.stream = d
	w.putNow(t, "default", "ann")
	ended := make(chan error, 1)
	go func() { ended <- w.Lead(t.Context(), 8, w.term) }()
	<-d.called
	claim, err := w.index.Claim(t.Context(), 0, 9, time.Now(), 0, 1, nil) // the successor claims
	pipelinetest.Must(t, err)
	if claim.Fenced > 0 {
		t.Fatalf("the successor is fenced by %d", claim.Fenced)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrFenced) {
			t.Errorf("got %v, want %v", err, ErrFenced)
		}
	case <-time.After(limit):
		t.Error("the term did not end")
	}
}

func onBad(e protocol.Entry, err error) error {
	if e.Queue == "bad" {
		return err
	}
	return nil
}
