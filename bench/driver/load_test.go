package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	r := protocol.Request{First: 10, Due: 1000, Step: 5, PerOwner: 2}
	want := []queue.Job{{ID: 12, Due: 1010, Owner: 6}, {ID: 13, Due: 1015, Owner: 6}, {ID: 14, Due: 1020, Owner: 7}}
	if diff := cmp.Diff(want, jobs(r, 2, 3)); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	r.Count = 3 // what is moved again gets another time
	if diff := cmp.Diff(queue.Job{ID: 11, Due: 1020, Owner: 5}, job(r, 4)); diff != "" {
		t.Errorf("job 4 of 3 (-want +got):\n%s", diff)
	}
}

func TestMany(t *testing.T) {
	t.Parallel()
	calls := make(chan int64, 1<<20)
	r, err := many(t.Context(), protocol.Request{Callers: 4, Seconds: 0.05}, func(_ context.Context, n int64) (int64, error) {
		calls <- n
		time.Sleep(time.Millisecond)
		return 10, nil
	})
	if err != nil || r.Jobs != 10*int64(len(calls)) || r.Micros < 50_000 {
		t.Errorf("many = %+v, %v after %d calls of 10 jobs", r, err, len(calls))
	}
	close(calls)
	numbers := map[int64]bool{}
	for n := range calls {
		numbers[n] = true
	}
	for n := range int64(len(numbers)) {
		if !numbers[n] {
			t.Fatalf("%d calls, and none has number %d", len(numbers), n)
		}
	}
}

// counting settles by itself what its handlers began.
type counting struct {
	queue.Queue
	n int64
}

func (c *counting) Settled() int64 { c.n++; return min(c.n, 3) }

func TestSettledIsAskedWhileSomethingHappens(t *testing.T) {
	t.Parallel()
	q := new(counting)
	s := &settled{queue: q}
	e := queue.NewEffects(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s.watch(ctx, e)
	if q.n != 0 {
		t.Errorf("asked %d times before anything began", q.n)
	}
	e.Start()
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.watch(ctx, e) }()
	for deadline := time.Now().Add(time.Minute); s.count.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was settled is not seen")
		}
	}
	cancel()
	<-done
	if s.last.Load() == 0 {
		t.Error("nothing says when the last one was settled")
	}
}
