package dispatch

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestPublishesBeforeItRemoves(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		due := w.put(t, "default", -10)
		stood := task.NoScore
		w.stream.refuse(func(task.Entry) error { stood = w.stands(t, due); return nil })
		s := w.shard(0, 1, nil)
		if res := pass(t, s); !res.More {
			t.Error("the acknowledgement waits for the next due entry, want it at once")
		}
		if stood == task.NoScore || w.stands(t, due) == task.NoScore {
			t.Error("the entry was removed before its acknowledgement: a crash would lose it")
		}
		pass(t, s)
		if w.stands(t, due) != task.NoScore || w.stream.hints(due) != 1 {
			t.Errorf("after the acknowledgement: stands %v, %d hints, want absent and 1", w.stands(t, due), w.stream.hints(due))
		}
	})
}

func TestCrashBetweenPublishAndAckRepeatsAndNeverLoses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		due := w.put(t, "default", -10)
		pass(t, w.shard(0, 1, nil)) // its process dies after this pass
		next := w.shard(0, 2, nil)
		pass(t, next)
		pass(t, next)
		if got := w.stream.hints(due); got != 2 || w.count(t) != 0 {
			t.Errorf("got %d hints and %d entries left, want 2 and 0", got, w.count(t))
		}
	})
}

func TestMovedBetweenClaimAndAckStays(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		due := w.put(t, "default", -10)
		s := w.shard(0, 1, nil)
		pass(t, s)
		moved := due
		moved.RunAt, moved.Version = at(60_000), 2
		pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{moved}))
		pass(t, s)
		if got := w.stands(t, due); got != task.ScoreOf(moved) {
			t.Errorf("stands at %v, want the new time %v", got, task.ScoreOf(moved))
		}
	})
}

func TestSleepsUntilTheNextEntryComesWithinTheLead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Lead = 50 * time.Millisecond
		s := w.shard(0, 1, nil)
		if got := pass(t, s); got.More || got.Next != time.Second {
			t.Errorf("empty shard: got %+v, want a sleep of a second", got)
		}
		far := w.put(t, "default", 30_000)
		if got := pass(t, s); got.Next != time.Second {
			t.Errorf("far entry: got %+v, want a sleep of a second", got)
		}
		w.put(t, "default", 2300)
		if got := pass(t, s); got.More || got.Next != 300*time.Millisecond {
			t.Errorf("entry in 2300 ms: got %+v, want a sleep until it can be seen what comes with it", got)
		}
		w.put(t, "default", 450)
		if got := pass(t, s); got.More || got.Next != 400*time.Millisecond {
			t.Errorf("entry in 450 ms: got %+v, want a sleep of 400 ms", got)
		}
		near := w.put(t, "default", 50)
		if got := pass(t, s); got.More || got.Next != 100*time.Millisecond || w.stream.hints(near) != 1 {
			t.Errorf("entry at the lead: got %+v and %d hints, want it claimed, and acknowledged a beat later", got, w.stream.hints(near))
		}
		if w.stream.hints(far) != 0 {
			t.Error("an entry beyond the lead was published")
		}
	})
}

func TestEntriesGatherUntilTheBeat(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Lead = 50 * time.Millisecond
		*w.now = at(10)
		s := w.shard(0, 1, nil)
		first, second, third := w.put(t, "default", 90), w.put(t, "default", 149), w.put(t, "default", 170)
		if got := pass(t, s); got.More || got.Next != 90*time.Millisecond {
			t.Errorf("got %+v, want a sleep until the beat at 100 ms", got)
		}
		if w.stream.hints(first) != 1 || w.stream.hints(second) != 1 || w.stream.hints(third) != 0 {
			t.Error("want the hints of all that have less than a lead left at the next beat, and of none else")
		}
		*w.now = at(100)
		if got := pass(t, s); got.More || got.Next != 100*time.Millisecond || w.stream.hints(third) != 1 {
			t.Errorf("got %+v and %d hints, want the third claimed at the beat", got, w.stream.hints(third))
		}
		if w.count(t) != 1 || w.stands(t, third) == task.NoScore {
			t.Errorf("%d entries are left, want the one that is not acknowledged", w.count(t))
		}
	})
}

func TestUnpublishableHeadStarvesNobody(t *testing.T) {
	t.Parallel()
	for name, valve := range map[string]func(e task.Entry) error{
		"permanent error": func(e task.Entry) error { return onBad(e, permanent{errRefused}) },
		"refused thrice":  func(e task.Entry) error { return onBad(e, errRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, w *world) {
				w.cfg.Limit = 10
				for i := range 35 { // more than three claims of unpublishable entries
					w.put(t, "bad", int64(i-100))
				}
				good := w.put(t, "default", -10)
				w.stream.refuse(valve)
				drain(t, w, good)
			})
		})
	}
	t.Run("undecodable", func(t *testing.T) {
		t.Parallel()
		onEach(t, func(t *testing.T, w *world) {
			w.cfg.Limit = 10
			for i := range 35 {
				w.junk(t, i)
			}
			drain(t, w, w.put(t, "default", -10))
		})
	})
}

func onBad(e task.Entry, err error) error {
	if e.Queue == "bad" {
		return err
	}
	return nil
}

// drain runs passes, which may fail, and wants the good entry published once.
func drain(t *testing.T, w *world, good task.Task) {
	t.Helper()
	s := w.shard(0, 1, nil)
	for range 40 {
		_, err := s.pass(t.Context())
		if err != nil && !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
	}
	// While nothing else is due, fewer entries than a claim are kept: nothing shows then whether Kafka takes other hints.
	if w.stream.hints(good) != 1 || w.count(t) >= int64(w.cfg.Limit) {
		t.Errorf("got %d hints and %d entries left, want 1 and less than a claim", w.stream.hints(good), w.count(t))
	}
}

func TestRefusedThriceWhileOthersPass(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		bad := w.put(t, "bad", -100)
		w.stream.refuse(func(e task.Entry) error { return onBad(e, errRefused) })
		s := w.shard(0, 1, nil)
		for n := 1; n <= 3; n++ {
			w.put(t, "default", -10)
			pass(t, s)
			if passed := slices.ContainsFunc(s.acked, func(e task.Entry) bool { return e.ID == bad.ID }); passed != (n == 3) {
				t.Errorf("pass %d: passed over: %v, want it after the third refusal", n, passed)
			}
			*w.now = w.now.Add(laterRetry)
		}
		pass(t, s)
		if w.stands(t, bad) != task.NoScore {
			t.Error("the refused entry still stands")
		}
	})
}

func TestKafkaAwayPassesNobodyOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Limit = 2
		all := []task.Task{w.put(t, "default", -30), w.put(t, "default", -20), w.put(t, "default", -10)}
		w.stream.refuse(func(task.Entry) error { return errRefused })
		s := w.shard(0, 1, nil)
		for range 10 {
			if _, err := s.pass(t.Context()); !errors.Is(err, errRefused) {
				t.Fatalf("got %v, want the refusal, so that the shard backs off", err)
			}
		}
		w.stream.refuse(nil)
		for range 4 {
			pass(t, s)
		}
		for i, one := range all {
			if w.stream.hints(one) != 1 {
				t.Errorf("entry %d: %d hints, want 1", i, w.stream.hints(one))
			}
		}
	})
}

func TestNoProgressWhilePublishingFails(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		h := &health{term: w.term}
		busy, idle := w.shard(0, 1, h), w.shard(1, 1, h)
		pass(t, idle)
		if got, _ := w.term.seen(); got != 1 {
			t.Errorf("nothing due anywhere: progress %d, want 1", got)
		}
		due := w.put(t, "default", -10)
		w.stream.refuse(func(task.Entry) error {
			pass(t, idle) // while the publish hangs
			return errRefused
		})
		if _, err := busy.pass(t.Context()); err == nil {
			t.Fatal("the publish did not fail")
		}
		pass(t, idle)
		if got, _ := w.term.seen(); got != 1 {
			t.Errorf("progress went to %d by idle shards while hints can't be published", got)
		}
		w.stream.refuse(nil)
		pass(t, busy)
		pass(t, idle)
		if got, _ := w.term.seen(); got != 3 || w.stream.hints(due) != 1 {
			t.Errorf("progress %d after the publish, want 3", got)
		}
	})
}

func TestAsksForRebuildOncePerSecond(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		s := w.shard(0, 1, nil)
		for ms := int64(0); ms < 2000; ms += 100 {
			*w.now = at(ms)
			pass(t, s)
		}
		if got := w.stream.requests(); got != 2 {
			t.Errorf("got %d requests in two seconds, want 2", got)
		}
		token, err := w.index.BeginRebuild(t.Context(), 0)
		pipelinetest.Must(t, err)
		_, err = w.index.EndRebuild(t.Context(), 0, token)
		pipelinetest.Must(t, err)
		*w.now = at(5000)
		pass(t, s)
		if got := w.stream.requests(); got != 2 {
			t.Errorf("got %d requests, want none of a shard whose marker stands", got)
		}
	})
}
