package api

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// A panic may come after a COMMIT: its answer does not say that nothing was changed, though the call's time is over too.
func TestPanicIsNoTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	f := failures{func(error) bool { return true }, slog.New(slog.DiscardHandler)}
	err := recovered(func() error { panic("broken") })
	if got := f.answer(ctx, "Schedule", err); got.Code() != connect.CodeInternal || len(got.Details()) != 0 {
		t.Errorf("got %v with %v", got, got.Details())
	}
}
