package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// lead runs a term. stop ends it and returns its error.
func lead(t *testing.T, w *world, epoch int64) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Lead(ctx, epoch, w.term) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			t.Fatal("the term did not end")
			return nil
		}
	}
}

func TestWakeUpEndsTheSleep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pipelinetest.Redis(t).Addr(), Config{Now: time.Now, Idle: time.Hour})
	stop := lead(t, w, 1)
	pipelinetest.Await(t, "both shards' first passes", func() bool { return passes(w.term) >= 2 })
	// The subscription may begin after a put, so the test puts until a hint comes. Without wake-ups no hint would come for
	// an hour.
	var all []task.Task
	pipelinetest.Await(t, "a hint of an entry put during the sleep", func() bool {
		all = append(all, w.put(t, "default", time.Since(base).Milliseconds()-int64(len(all))))
		return slices.ContainsFunc(all, func(one task.Task) bool { return w.stream.hints(one) > 0 })
	})
	pipelinetest.Must(t, stop())
}

// Idle shards don't claim for an hour: only checkMarkers can find the lost memory.
func TestLostMemoryIsNoticedDuringTheSleep(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.cfg.Idle, w.cfg.Now = time.Hour, time.Now
		for shard := range 2 {
			token, err := w.index.BeginRebuild(t.Context(), shard)
			pipelinetest.Must(t, err)
			_, err = w.index.EndRebuild(t.Context(), shard, token)
			pipelinetest.Must(t, err)
		}
		stop := lead(t, w, 1)
		pipelinetest.Await(t, "both shards' first passes", func() bool { return passes(w.term) >= 2 })
		if n := w.stream.requests(); n > 0 {
			t.Errorf("%d rebuilds asked for while all markers stand", n)
		}
		_, err := w.index.BeginRebuild(t.Context(), 1)
		pipelinetest.Must(t, err)
		pipelinetest.Await(t, "the rebuild to be asked for", func() bool { return w.stream.requests() > 0 })
		pipelinetest.Must(t, stop())
	})
}

func TestManyIdleShardsAreLookedAtSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{})
	for shards, want := range map[int]time.Duration{1: time.Second, 16: time.Second, 32: 2 * time.Second, 64: 4 * time.Second, 1024: 4 * time.Second} {
		if got := w.idle(shards); got != want {
			t.Errorf("%d shards sleep %v, want %v", shards, got, want)
		}
	}
}

func passes(t *term) int { return int(t.progress.Load()) }

func TestShardGrowthIsNoticedAtTheNextTerm(t *testing.T) {
	t.Parallel()
	var polled atomic.Int64
	polled.Store(1)
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{
		Now: time.Now, Layout: func(context.Context) (protocol.Layout, error) {
			return protocol.Layout{ShardsEver: int(polled.Load())}, nil
		},
	})
	grown := pending("default", time.Now())
	grown.Shard = 3
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{grown}))
	pipelinetest.Must(t, lead(t, w, 1)())
	polled.Store(4)
	stop := lead(t, w, 2)
	pipelinetest.Await(t, "a hint of the new shard", func() bool { return w.stream.hints(grown) == 1 })
	pipelinetest.Must(t, stop())
}

func TestUnreadableLayoutEndsOnlyANewTerm(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	var calls atomic.Int64
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{Now: time.Now, Layout: func(context.Context) (protocol.Layout, error) {
		if calls.Add(1) == 1 {
			return protocol.Layout{ShardsEver: 1}, nil
		}
		return protocol.Layout{}, away
	}})
	stop := lead(t, w, 1)
	one := pending("default", time.Now())
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{one}))
	pipelinetest.Await(t, "a hint while the layout can't be read", func() bool { return w.stream.hints(one) > 0 })
	pipelinetest.Must(t, stop())
	if err := w.Lead(t.Context(), 2, w.term); !errors.Is(err, away) {
		t.Errorf("got %v, want %v", err, away)
	}
}

func TestEndOfTheContextReturnsPromptly(t *testing.T) {
	t.Parallel()
	for name, valve := range map[string]func(protocol.Entry) error{
		"idle":    nil,
		"failing": func(protocol.Entry) error { return errRefused },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pipelinetest.Redis(t).Addr(), Config{Now: time.Now})
			w.stream.refuse(valve)
			one := pending("default", time.Now())
			pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{one}))
			stop := lead(t, w, 1)
			pipelinetest.Await(t, "the shards' first passes", func() bool { return valve != nil || passes(w.term) > 2 })
			begun := time.Now()
			pipelinetest.Must(t, stop())
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("took %v, want well below the longest sleeps", took)
			}
		})
	}
}

func TestNewRefusesWhatCantWork(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Now: time.Now}, nil, nil); err == nil {
		t.Error("a configuration without Layout passed")
	}
}
