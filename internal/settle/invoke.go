package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	abandonAfter = 500 * time.Millisecond // how long a handler may go on after its context ended
	maxAbandoned = 3                      // handlers abandoned at once before the worker gives up
)

// call runs one handler for the members, and records which tasks it changed.
func (t *transaction) call(members []*member) error {
	s, handler := t.settler, members[0].handler
	ctx, cancel := context.WithTimeoutCause(t.ctx, s.cfg.HandlerTimeout, s.timeout)
	defer cancel()
	ctx, end := s.traced(ctx, members)
	c, mark := &Call{ctx: ctx, tx: t, members: members}, t.changes.Mark()
	t.changes.Renew(of(members, idOf)) // a handler that moves its own task has succeeded
	t.batch.called = true
	for _, m := range members {
		m.hint.Call.Version, m.hint.Call.Outside = m.row.Version, handler.Form == Outside
	}
	started := time.Now()
	err := s.invoke(ctx, members[0].row.Kind, func() error { return handler.Run(ctx, c) })
	took := time.Since(started)
	t.spent += took
	end(err)
	handler.slow.Store(len(members) == 1 && took >= s.cfg.BatchTime)
	c.close()
	if errors.Is(err, errAbandoned) {
		return err // it may still be busy with the transaction
	}
	if !t.stands() {
		t.endedEarly = true
		return errors.Join(errEnded, err)
	}
	if err == nil {
		err = t.changes.Err() // passed over by the handler
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", s.timeout, err)
		}
		return err
	}
	for _, m := range members {
		m.stage, m.verdict = stageRan, verdict{result: resultDone, settled: true}
	}
	t.wrote = true
	for _, changed := range t.changes.TouchedSince(mark) {
		t.recordChange(changed)
	}
	return nil
}

// recordChange remembers a task that a handler changed. A member that was changed leaves the run, if it has not run yet, and
// the marking in any case: one that moved itself stays pending, at its new time.
func (t *transaction) recordChange(changed task.Task) {
	t.touched[changed.ID] = changed
	m := t.members[changed.ID]
	if m == nil || changed.Version == m.row.Version {
		return
	}
	switch m.stage {
	case stageWaiting:
		m.stage, m.verdict = stageDecided, verdict{result: resultStale, settled: true}
		if changed.State != task.Pending {
			m.verdict.result = resultAlreadyDone
		}
	case stageRan:
		m.stage = stageDecided // its verdict stays done
	case stageDecided, stageMarked:
	}
}

// invoke runs fn on a goroutine of its own, so that one which ignores the end of ctx can be left behind.
func (s *Settler) invoke(ctx context.Context, kind string, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			if v := recover(); v != nil {
				err = panicError{value: v, stack: debug.Stack()}
			}
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
		s.abandon(ctx, kind, done)
		return errAbandoned
	}
}

// abandon counts a handler that ignores the end of its context. After a few of them the process is worth nothing.
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
