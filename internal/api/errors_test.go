package api

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// A panic may come after a COMMIT: its answer does not say that nothing was changed, though the call's time is over too.
func TestPanicIsNoTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	f := &failures{unavailable: func(error) bool { return true }, log: slog.New(slog.DiscardHandler)}
	err := recovered(func() error { panic("broken") })
	if got := f.answer(ctx, "Schedule", err); got.Code() != connect.CodeInternal || len(got.Details()) != 0 {
		t.Errorf("got %v with %v", got, got.Details())
	}
}

// A caller's answer does not show the database's text, so the log does: one line, however many calls fail.
func TestAwayIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	full := errors.New("the table is full")
	yes, no := func(error) bool { return true }, func(error) bool { return false }
	for reason, f := range map[string]*failures{
		reasonFull: {full: yes, unavailable: yes}, reasonAway: {full: no, unavailable: yes},
	} {
		log.Reset()
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			if got := f.answer(t.Context(), "Schedule", full); got.Code() != connect.CodeUnavailable {
				t.Errorf("%s: got %v", reason, got)
			}
		}
		if n := strings.Count(log.String(), full.Error()); n != 1 {
			t.Errorf("%s: %d lines, want 1:\n%s", reason, n, log.String())
		}
	}
}
