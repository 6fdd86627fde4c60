package worldtest

import (
	"context"
	"sync"
	"testing"
)

// Run runs a loop until stop is called, at the latest after the test; stop returns what the loop returned.
func Run(t testing.TB, loop func(ctx context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- loop(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}
