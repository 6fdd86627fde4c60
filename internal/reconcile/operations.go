package reconcile

import (
	"context"
	"errors"
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

// operations carries out operations, the oldest first, in pages: see operationPage. While tasks run, a run of the pass does a
// small page and then sleeps, as rehome does. The rows of a page are put into the index while the next page is changed; a
// daemon that dies before leaves them to the changed pass. While Redis is away operations go on, also in a term that begins
// then: they wait for a rebuild that is under way, not for the first look at the markers.
type operations struct {
	r       *Reconciler
	current task.ID     // of which the log has said that it goes on
	at      []time.Time // moments of the last pages' changes: busy leaves them out
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
	o := running[0]
	if s.current != o.ID {
		s.current = o.ID
		s.r.cfg.Logger.InfoContext(ctx, "operation goes on", "operation", o.ID, "verb", o.Verb, "n", o.Changed, "actor", o.Actor)
	}
	s.forget(now().Add(-busyTime))
	busy, err := s.r.busy(ctx, now, s.at...)
	if err != nil {
		return loop.Result{}, err
	}
	began := time.Now()
	changed, err := s.pages(ctx, o, busy)
	if err != nil {
		return loop.Result{}, err
	}
	return paced(o.Rate, changed, busy, time.Since(began)), nil
}

// paced says when the next run begins after one that has changed so many rows.
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

// pages runs the next pages of the operation, and returns how many rows they have changed.
func (s *operations) pages(ctx context.Context, o task.Operation, busy bool) (changed int, err error) {
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
			return changed, nil
		}
		p, err := s.page(ctx, o.ID, scan, size)
		if err != nil {
			return changed, err
		}
		if len(p.changed) > 0 {
			s.at = append(s.at, p.at)
			puts.Go(func() error { return s.put(ctx, p) })
		}
		changed += len(p.changed)
		s.count(p)
		if p.operation.State != task.OperationRunning {
			s.ended(ctx, p.operation)
			return changed, nil
		}
	}
	return changed, nil
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

// put makes the index hold the page's rows. Of rows that went to another queue the old entries are removed afterwards: a task
// with two entries fires once, one without an entry would wait for a sweep.
func (s *operations) put(ctx context.Context, p *operationPage) error {
	err := s.r.putRows(ctx, operationsReason, append(p.changed, p.made()...))
	if err == nil && p.operation.Verb == task.VerbRequeue {
		err = s.r.putRows(ctx, operationsReason, p.before)
	}
	if errors.Is(err, errStillMoving) { // their writers put them
		return nil
	}
	return err
}

func (s *operations) count(p *operationPage) {
	for outcome, n := range map[string]int{"changed": len(p.changed), "ended": p.ended, "left_alone": p.unchanged} {
		if n > 0 {
			s.r.metrics.operated.WithLabelValues(string(p.operation.Verb), outcome).Add(float64(n))
		}
	}
	s.r.metrics.ticks.Count(p.progress.Ticks())
}

// ended logs that an operation does not go on.
func (s *operations) ended(ctx context.Context, o task.Operation) {
	s.current = task.ID{}
	s.r.cfg.Logger.InfoContext(ctx, "operation stands",
		"operation", o.ID, "verb", o.Verb, "state", o.State.String(), "n", o.Changed, "actor", o.Actor)
}
