package api

import (
	"context"
	"testing"
	"testing/synctest"
)

// A caller that asks again and again takes the place from no other caller: behind the call that reads, the others come first.
func TestTurnsOfCallers(t *testing.T) {
	t.Parallel()
	for _, readsAll := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{places: newPlaces(ownersLists, ownersWaits)}
			as := func() context.Context {
				return context.WithValue(t.Context(), callerKey{}, caller{places: newPlaces(callerOwnersLists, callerOwnersWaits)})
			}
			ends := make(chan struct{})
			defer close(ends)
			begun := make(chan string, 100)
			call := func(ctx context.Context, name string) {
				go func() {
					done, err := s.awaitPlace(ctx, readsAll)
					if err != nil { // the test has ended
						return
					}
					begun <- name
					<-ends
					done()
				}()
				synctest.Wait()
			}
			greedy, polite := as(), as()
			for range 20 {
				call(greedy, "greedy")
			}
			call(polite, "polite")
			for n := len(begun); n > 0; n-- { // those that read by now come to their end
				if readsAll {
					ends <- struct{}{}
				}
			}
			synctest.Wait()
			for last := ""; last != "polite"; last = <-begun {
				if len(begun) == 0 {
					t.Fatalf("reads all rows %v: the other caller waits", readsAll)
				}
			}
		})
	}
}

// A call that gives up while it waits leaves its caller's place.
func TestTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	s, own := &service{places: newPlaces(1, 1)}, newPlaces(1, 1)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callerKey{}, caller{places: own}))
	s.places.all <- struct{}{}
	cancel()
	if _, err := s.awaitPlace(ctx, true); err == nil || len(own.all) > 0 {
		t.Errorf("got %v with %d places taken, want an error and none", err, len(own.all))
	}
	s.places.waits <- struct{}{}
	if _, err := s.awaitWait(ctx); err == nil || len(own.waits) > 0 {
		t.Errorf("a wait: %v with %d places taken, want an error and none", err, len(own.waits))
	}
}
