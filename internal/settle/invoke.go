package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	abandonAfter = 500 * time.Millisecond // the end of its context, if the handler has not returned
	maxAbandoned = 3                      // handlers at once, then the worker ends
)

// call runs one handler for the members, and records which tasks it changed.
func (t *transaction) call(members []*member) error {
	s, handler := t.settler, members[0].handler
	timeout := s.timeouts[members[0].row.Kind]
	ctx, cancel := context.WithTimeoutCause(t.ctx, timeout.after, timeout.cause)
	defer cancel()
	ctx, end := s.traced(ctx, members)
	t.span = trace.SpanContextFromContext(ctx)
	c, mark := &Call{ctx: ctx, tx: t, members: members}, t.ledger.Mark()
	c.handed = t.changes.For(c, collect(members, idOf), renew) // a handler that moves its own task has succeeded
	t.batch.called = true
	if t.startedAt.IsZero() {
		t.startedAt = t.settler.clock.Now()
	}
	for _, m := range members {
		m.hint.Called = true
		m.hint.Call.Version, m.hint.Call.Outside = m.row.Version, handler.Form == Outside
	}
	r := &running{began: time.Now(), Call: protocol.Call{
		Kind: members[0].row.Kind, Task: members[0].row.ID, Tasks: len(members), LimitMs: timeout.after.Milliseconds(),
	}}
	err := s.invoke(ctx, r, func() error { return handler.Run(ctx, c) })
	took := time.Since(r.began)
	t.spent += took
	for _, m := range members {
		m.took = took
	}
	end(err)
	handler.slow.Store(handler.Form == Single && took >= s.cfg.BatchTime) // a batch handler of one task would never get many again
	c.close()
	if errors.Is(err, errAbandoned) {
		return err // the handler may still use the transaction
	}
	if ended := t.release(); t.endedEarly || err == nil {
		err = errors.Join(ended, err)
	}
	if err == nil {
		err = t.ledger.Err() // the handler may have ignored it
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", timeout.cause, err)
		}
		return err
	}
	for _, m := range members {
		m.stage, m.verdict = stageRan, verdict{result: resultDone, settled: true}
	}
	t.wrote = true
	for _, changed := range t.ledger.Touched(mark) {
		t.recordChange(changed)
	}
	return nil
}

// recordChange records a task that a handler changed. A changed member is not marked done, and does not run, or end otherwise,
// if its turn has not come. A member that moved itself stays pending, at its new time.
func (t *transaction) recordChange(changed task.Task) {
	m := t.members[changed.ID]
	if m == nil || changed.Version == m.stands.Version {
		return
	}
	unsaved := m.stage == stageDecided && m.row.Version != m.stands.Version // a reader saves a verdict when its turn comes
	switch {
	case m.stage == stageWaiting, unsaved:
		m.stage, m.verdict = stageDecided, verdict{result: resultStale, settled: true}
		if changed.State != task.Pending {
			m.verdict.result = resultAlreadyDone
		}
	case m.stage == stageRan:
		m.stage = stageDecided // the verdict stays: result done
	}
}

// invoke runs fn on a goroutine of its own, so that a handler that ignores the end of ctx can be abandoned.
func (s *Settler) invoke(ctx context.Context, r *running, fn func() error) error {
	done := make(chan error, 1)
	s.calls.enter(r)
	go func() {
		err := errExited
		defer func() {
			if v := recover(); v != nil {
				err = panicError{value: v, stack: debug.Stack()}
			}
			s.calls.leave(r)
			done <- err
		}()
		err = fn()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		s.abandon(ctx, r.Kind, done)
		return fmt.Errorf("%w: %w", errAbandoned, context.Cause(ctx))
	}
}

// abandon counts a handler that ignores the end of its context. With maxAbandoned of them the process must end, because
// they keep runners and connections.
func (s *Settler) abandon(ctx context.Context, kind string, done <-chan error) {
	s.metrics.abandoned.Inc()
	s.log.ErrorContext(ctx, "handler abandoned", slog.String("kind", kind))
	if s.abandoned.Add(1) >= maxAbandoned {
		s.cfg.OnStuck(fmt.Errorf("%w: the last one was of kind %s", ErrStuck, kind))
	}
	go func() {
		s.log.InfoContext(ctx, "abandoned handler came back", slog.String("kind", kind), slog.Any("err", <-done))
		s.abandoned.Add(-1)
	}()
}
