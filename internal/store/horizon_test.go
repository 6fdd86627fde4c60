package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
)

func setHorizon(t *testing.T, s *store.Store) {
	ctx := t.Context()
	before := value[protocol.Layout](t)(s.Layout(ctx))
	if before.Horizon != 0 || before.Partial {
		t.Errorf("a new layout: %+v", before)
	}
	line := protocol.Event{At: t0, Name: protocol.EventHorizon, Detail: "none to 10m0s"}
	must(t, s.SetHorizon(ctx, before, 10*time.Minute, true, line))
	for _, stale := range []protocol.Layout{before, {Partial: true}, {Horizon: 10 * time.Minute}} {
		if err := s.SetHorizon(ctx, stale, time.Hour, true, line); !errors.Is(err, protocol.ErrLayoutChanged) {
			t.Errorf("a change of %+v: %v, want ErrLayoutChanged", stale, err)
		}
	}
	l := value[protocol.Layout](t)(s.Layout(ctx))
	want := before
	want.Horizon, want.Partial = 10*time.Minute, true
	if l != want {
		t.Errorf("got the layout %+v, want %+v", l, want)
	}
	if n := value[int](t)(countLines(s, protocol.EventHorizon)); n != 1 {
		t.Errorf("%d lines of the history, want 1", n)
	}
	changeOf(t, s, 2*l.Shards) // is about other columns
	must(t, s.SetHorizon(ctx, l, 0, false, line))
}

func countLines(s *store.Store, event string) (n int, err error) {
	err = s.DB().Get(&n, "SELECT COUNT(*) FROM duetime_history WHERE event = ?", event)
	return n, err
}
