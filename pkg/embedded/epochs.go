package embedded

import (
	"context"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/store"
)

// epochs counts the terms of this process's leaders. The index that fences by them ends with the process, and so may the
// counter: a second pipeline on the schema has its own index and leaders, and its epochs are not compared with these.
type epochs struct {
	mu   sync.Mutex
	last map[string]int64
}

// Take raises the counter of name by one.
func (e *epochs) Take(ctx context.Context, name string) (int64, error) {
	return e.TakeAbove(ctx, name, 0)
}

// TakeAbove raises the counter of name above its value and above stored.
func (e *epochs) TakeAbove(_ context.Context, name string, stored int64) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[name] = max(e.last[name], stored) + 1
	return e.last[name], nil
}

// Current returns the counter of name.
func (e *epochs) Current(_ context.Context, name string) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last[name], nil
}

// daemonStore is reconcile's store, with the epochs of this process.
type daemonStore struct {
	*store.Store
	epochs *epochs
}

// Moment returns the database's time and the newest epoch.
func (d daemonStore) Moment(ctx context.Context, name string) (now time.Time, epoch int64, err error) {
	if now, err = d.Now(ctx, nil); err != nil {
		return now, 0, err
	}
	epoch, err = d.epochs.Current(ctx, name)
	return now, epoch, err
}
