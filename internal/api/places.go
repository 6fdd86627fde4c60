package api

import "context"

const (
	ownersWaits       = 400 // calls of AwaitDue at once: each asks the database eight times in its first second, and then twice a second
	callerOwnersWaits = 100

	ownersLists       = 8 // lists of owners at once: one reads all rows of its owner, and their connections are missing elsewhere
	callerOwnersLists = ownersLists / 2
)

// places has the places of calls that read many rows: all of them, or those of one owner; and of calls that wait. The service has some, and each caller has fewer:
// a call takes its caller's place first. So a caller waits behind one call of each other caller, however many calls the others make.
type places struct{ all, owners, waits chan struct{} }

func newPlaces(owners, waits int) places {
	return places{make(chan struct{}, 1), make(chan struct{}, owners), make(chan struct{}, waits)}
}

// awaitPlace waits until the call may read: rows of all owners, one call at a time, for many such calls would make tasks late; or those of one
// owner. Call what it returns after the reading.
func (s *service) awaitPlace(ctx context.Context, readsAll bool) (done func(), err error) {
	mine, shared := callerOf(ctx).places.owners, s.places.owners
	if readsAll {
		mine, shared = callerOf(ctx).places.all, s.places.all
	}
	return takeBoth(ctx, mine, shared)
}

// awaitWait waits until the call may wait for what is due of an owner.
func (s *service) awaitWait(ctx context.Context) (done func(), err error) {
	return takeBoth(ctx, callerOf(ctx).places.waits, s.places.waits)
}

func takeBoth(ctx context.Context, mine, shared chan struct{}) (done func(), err error) {
	if err := take(ctx, mine); err != nil {
		return nil, err
	}
	if err := take(ctx, shared); err != nil {
		<-mine
		return nil, err
	}
	return func() { <-shared; <-mine }, nil
}

func take(ctx context.Context, place chan struct{}) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
