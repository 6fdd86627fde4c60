package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	operationScan    = 20                    // rows that are looked at for each row of a full page, if the filter chooses few
	operationWait    = 2 * time.Second       // for rows of a page that others have locked; then they are left alone
	operationLook    = 50 * time.Millisecond // between two looks whether these rows are free
	operationTries   = 5                     // of a page that meets a deadlock
	operationsReason = "operation"
)

// operations carries out operations in pages: see operationPage. All that run take turns: that goes on whose turn is the longest
// ago, and one with a rate once its rate allows. So a slow or a large one delays another one by a run of the pass. While tasks run, a run of the pass does a
// small page and then sleeps, as rehome does. The rows of a page are put into the index while the next page is changed; a
// daemon that dies before leaves them to the changed pass. While Redis is away operations go on, also in a term that begins
// then: they wait for a rebuild that is under way, not for the first look at the markers.
type operations struct {
	r    *Reconciler
	next map[task.ID]time.Time // when each one goes on, on the local clock; only those of which the log has said that they do
	at   []time.Time           // moments of the last pages' changes: busy leaves them out
}

func (s *operations) pass(ctx context.Context, now clock) (loop.Result, error) {
	running, err := s.r.store.RunningOperations(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	s.r.metrics.operations.Set(float64(len(running)))
	if len(running) == 0 {
		return loop.Result{}, nil
	}
	if s.r.rebuilding() {
		return loop.Result{Next: yieldInterval}, nil
	}
	o := s.first(ctx, running)
	s.forget(now().Add(-busyTime))
	busy, err := s.r.busy(ctx, now, s.at...)
	if err != nil {
		return loop.Result{}, err
	}
	began := time.Now()
	changed, stands, err := s.pages(ctx, o, busy)
	took := time.Since(began)
	s.next[o.ID] = time.Now().Add(paced(o.Rate, changed, busy, took).Next) // after an error too: the others come first
	if err != nil {
		return loop.Result{}, err
	}
	if stands {
		running = slices.DeleteFunc(running, func(other task.Operation) bool { return other.ID == o.ID })
	}
	return s.nextRun(running, paced(0, changed, busy, took)), nil
}

// first returns the operation that goes on.
func (s *operations) first(ctx context.Context, running []task.Operation) task.Operation {
	next := make(map[task.ID]time.Time, len(running))
	for _, o := range running {
		at, known := s.next[o.ID]
		if next[o.ID] = at; !known {
			s.r.cfg.Logger.InfoContext(ctx, "operation goes on", "operation", o.ID, "verb", o.Verb, "n", o.Changed, "actor", o.Actor)
		}
	}
	s.next = next
	return slices.MinFunc(running, func(a, b task.Operation) int { return next[a.ID].Compare(next[b.ID]) })
}

// nextRun says when the next run begins: once an operation may go on, and no earlier than after as long a sleep as running tasks want.
func (s *operations) nextRun(running []task.Operation, sleep loop.Result) loop.Result {
	if len(running) == 0 {
		return sleep
	}
	wait := time.Until(s.next[running[0].ID])
	for _, o := range running[1:] {
		wait = min(wait, time.Until(s.next[o.ID]))
	}
	if wait = max(wait, sleep.Next); wait <= 0 {
		return loop.Result{More: true}
	}
	return loop.Result{Next: wait}
}

// paced says when an operation's next run begins after one that has changed so many rows.
func paced(rate, changed int, busy bool, took time.Duration) loop.Result {
	wait := time.Duration(0)
	if busy {
		wait = rehomeSleep * took
	}
	if rate > 0 {
		wait = max(wait, time.Duration(changed)*time.Second/time.Duration(rate)-took)
	}
	if wait <= 0 {
		return loop.Result{More: true}
	}
	return loop.Result{Next: wait}
}

// forget drops the moments of pages before one.
func (s *operations) forget(before time.Time) {
	for len(s.at) > 0 && s.at[0].Before(before) {
		s.at = s.at[1:]
	}
}

// pagesOf returns how many rows a page looks at and changes at most, and how many pages one run does. A run with a rate changes
// a second's rows at most; it looks at as many rows as one without, or a small rate would need a run for each few rows of the
// table.
func pagesOf(rate int, busy bool) (scan, size, n int) {
	switch size, n = page, rehomePages; {
	case busy:
		size, n = rehomeSmall, 1
	case rate > 0:
		n = 1
	}
	scan = operationScan * size
	if rate > 0 {
		size = min(size, rate)
	}
	return scan, size, n
}

// pages runs the next pages of the operation, and returns how many rows they have changed, and whether the operation does not go on.
func (s *operations) pages(ctx context.Context, o task.Operation, busy bool) (changed int, stands bool, err error) {
	scan, size, n := pagesOf(o.Rate, busy)
	var puts errgroup.Group
	puts.SetLimit(rehomeMoves)
	defer func() {
		if putErr := puts.Wait(); err == nil {
			err = putErr
		}
	}()
	for range n {
		if s.r.rebuilding() {
			return changed, false, nil
		}
		p, err := s.page(ctx, o.ID, scan, size)
		if err != nil {
			return changed, false, err
		}
		if len(p.changes) > 0 {
			s.at = append(s.at, p.at)
			puts.Go(func() error { return s.r.follow(ctx, operationsReason, p.tx) })
		}
		changed += len(p.changes)
		s.count(p)
		if p.operation.State != task.OperationRunning {
			s.ended(ctx, p.operation)
			return changed, true, nil
		}
	}
	return changed, false, nil
}

// page runs one page. Rows that others have locked are waited for, without a transaction; at last they are left alone.
func (s *operations) page(ctx context.Context, id task.ID, scan, size int) (*operationPage, error) {
	began := time.Now()
	for try := 1; ; {
		p := &operationPage{r: s.r, scan: scan, size: size, last: time.Since(began) >= operationWait, newest: map[task.ID]bool{}}
		err := p.run(ctx, id)
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, errLocked):
			if loop.Sleep(ctx, operationLook); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		case !s.r.store.Retryable(err) || try == operationTries || ctx.Err() != nil:
			return nil, err
		default:
			try++
		}
	}
}

func (s *operations) count(p *operationPage) {
	for outcome, n := range map[string]int{"changed": len(p.changes), "ended": p.ended, "left_alone": p.unchanged} {
		if n > 0 {
			s.r.metrics.operated.WithLabelValues(string(p.operation.Verb), outcome).Add(float64(n))
		}
	}
}

// ended logs that an operation does not go on.
func (s *operations) ended(ctx context.Context, o task.Operation) {
	s.r.cfg.Logger.InfoContext(ctx, "operation stands",
		"operation", o.ID, "verb", o.Verb, "state", o.State.String(), "n", o.Changed, "actor", o.Actor)
}
