package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func testCompensation(t *testing.T, u under) {
	want := protocol.Compensation{IDs: []task.ID{task.NewID(), task.NewID()}, Rebuild: []int{3}}
	u.garbage(t, u.cfg.Namespace+".compensate", []byte("garbage"))
	if err := u.Compensate(t.Context(), want); err != nil {
		t.Fatalf("compensate: %v", err)
	}
	var got []protocol.Compensation
	tries := 0
	collect(t, u, func(_ context.Context, cs []protocol.Compensation) (bool, error) {
		if tries++; tries <= 2 {
			return false, errors.New("not yet")
		}
		got = append(got, cs...)
		return true, nil
	})
	if diff := cmp.Diff([]protocol.Compensation{want}, got); diff != "" {
		t.Errorf("compensations (-want +got): %s", diff)
	}

	// Accepted compensations don't come again; one that was never accepted does, after a restart.
	second := protocol.Compensation{Rebuild: []int{5}}
	if err := u.Compensate(t.Context(), second); err != nil {
		t.Fatalf("compensate: %v", err)
	}
	collect(t, u, func(context.Context, []protocol.Compensation) (bool, error) { return true, errors.New("never") })
	got = nil
	collect(t, u, func(_ context.Context, cs []protocol.Compensation) (bool, error) {
		got = append(got, cs...)
		return slices.ContainsFunc(got, func(c protocol.Compensation) bool { return cmp.Equal(c, second) }), nil
	})
	if !cmp.Equal(got[len(got)-1], second) {
		t.Errorf("got %v, want the last to be %v", got, second)
	}
}

// collect runs Compensations until fn has enough.
func collect(t *testing.T, u under, fn func(context.Context, []protocol.Compensation) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := false
	err := u.Compensations(ctx, func(ctx context.Context, cs []protocol.Compensation) error {
		var err error
		if enough, err = fn(ctx, cs); enough {
			// fn's result must lead to a commit before ctx ends: afterwards Compensations returns.
			time.AfterFunc(300*time.Millisecond, cancel)
		}
		return err
	})
	if err != nil || !enough {
		t.Fatalf("compensations: %v, enough %t", err, enough)
	}
}

func testLargeCompensation(t *testing.T, u under) {
	var want protocol.Compensation
	for range 1200 {
		want.IDs = append(want.IDs, task.NewID())
	}
	if err := u.Compensate(t.Context(), want); err != nil {
		t.Fatalf("compensate: %v", err)
	}
	seen := map[task.ID]bool{}
	collect(t, u, func(_ context.Context, cs []protocol.Compensation) (bool, error) {
		for _, c := range cs {
			for _, id := range c.IDs {
				seen[id] = true
			}
		}
		return len(seen) == len(want.IDs), nil
	})
}

func testBacklog(t *testing.T, u under) {
	before := time.Now().Add(-time.Second)
	b := backlog(t, u)
	lagging, idle := "lagging", ""
	for i := 0; idle == ""; i++ {
		if o := fmt.Sprintf("idle-%d", i); b.Partition(o) != b.Partition(lagging) {
			idle = o
		}
	}
	pipelinetest.Await(t, "an empty topic that is clear", func() bool {
		b := backlog(t, u) // the leader of a new topic may not know it yet
		return b.Clear(lagging) && !b.Explains(lagging, time.Now().Add(time.Hour))
	})
	publish(t, u, entry(lagging, 1), entry(lagging, 2), entry(idle, 3))
	after := time.Now().Add(time.Second)

	h := consume(t, u, "default").session()
	ds := fetch(t, h, 3)
	for _, d := range ds {
		if got := b.Partition(d.Hint.Owner); got != d.Partition {
			t.Errorf("%s: partition %d, but it was published to %d", d.Hint.Owner, got, d.Partition)
		}
	}
	commit := next(ds)
	for _, d := range ds {
		if d.Hint.Owner == lagging {
			commit[d.Partition] = min(commit[d.Partition], d.Offset)
		}
	}
	if err := h.Commit(t.Context(), commit); err != nil {
		t.Fatalf("commit: %v", err)
	}
	b = backlog(t, u)
	if !b.Explains(lagging, after) || b.Clear(lagging) {
		t.Error("the lagging owner is not explained, or clear")
	}
	if b.Explains(lagging, before) {
		t.Error("what was published later explains")
	}
	if b.Explains(idle, after) || !b.Clear(idle) {
		t.Error("another partition's lag explains, or the idle one is not clear")
	}
	if err := h.Commit(t.Context(), next(ds)); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if b = backlog(t, u); b.Explains(lagging, after) || !b.Clear(lagging) {
		t.Error("explained after all was committed, or not clear")
	}
}

func backlog(t *testing.T, u under) stream.Backlog {
	t.Helper()
	b, err := u.Backlog(t.Context(), "default")
	if err != nil {
		t.Fatalf("backlog: %v", err)
	}
	return b
}

func testBury(t *testing.T, u under) {
	big := make([]byte, 1<<20)
	err := u.Bury(t.Context(), []protocol.DeadLetter{
		{ID: task.NewID(), Kind: "k", Owner: "o", Queue: "default", Attempt: 25, Error: "no more attempts"},
		{Error: string(big), Raw: big, Owner: string(big)},
	})
	if err != nil {
		t.Errorf("bury: %v", err)
	}
	if err := u.Bury(t.Context(), nil); err != nil {
		t.Errorf("bury nothing: %v", err)
	}
}

func testStop(t *testing.T, u under) {
	if err := u.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	var stopping sync.WaitGroup
	for range 3 {
		c := consume(t, u, "other")
		stopping.Go(c.stop)
	}
	stopping.Wait()
	c := consume(t, u, "other")
	h := c.session()
	begun := time.Now()
	c.stop()
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("stopping an idle consumer took %s", d)
	}
	if h.ctx.Err() == nil {
		t.Error("the session's context still stands")
	}
}

func testMissingTopic(t *testing.T, u under) {
	missing := entry("a", 1)
	missing.Queue = "nobody-configured-this"
	errs := u.Publish(t.Context(), []protocol.Entry{missing, entry("a", 2)}, 1)
	if len(errs) != 2 || errs[0] == nil || errs[1] != nil {
		t.Fatalf("got %v, want an error for the first only", errs)
	}
	if !isPermanent(errs[0]) {
		t.Errorf("%v is not permanent", errs[0])
	}
	fetch(t, consume(t, u, "default").session(), 1)
}

// The topic of a further queue is made when it is missing where it is wanted.
func testFurtherQueues(t *testing.T, u under) {
	wanted := entry("a", 1)
	wanted.Queue = "wanted"
	if errs := u.Publish(t.Context(), []protocol.Entry{wanted}, 1); len(errs) != 1 || !isPermanent(errs[0]) {
		t.Errorf("before: %v, want a permanent error", errs)
	}
	u.SetFurther([]string{"wanted"})
	pipelinetest.Await(t, "the topic that is wanted", func() bool { return u.Publish(t.Context(), []protocol.Entry{wanted}, 1) == nil })
	fetch(t, consume(t, u, "wanted").session(), 1)
}
